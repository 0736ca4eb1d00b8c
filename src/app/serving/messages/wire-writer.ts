/** Writes the wire format of protocol buffers, as parts that are joined once the lengths are known. */
import { putVarint, varintLength } from '../../../base/bytes/varint.js';
import { BYTES, VARINT } from './wire-reader.js';

export type Parts = readonly Uint8Array[];

export const lengthOf = (parts: Parts): number => {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
};

/** The tag of a field with bytes, and their length. */
export function bytesHead(field: number, length: number): Uint8Array {
  const tag = field * 8 + BYTES;
  const head = new Uint8Array(varintLength(tag) + varintLength(length));
  putVarint(head, putVarint(head, 0, tag), length);
  return head;
}

/** A field with the given bytes, or the given parts as its message. */
export const bytesField = (field: number, ...parts: Parts): Parts => [
  bytesHead(field, lengthOf(parts)),
  ...parts,
];

export const stringField = (field: number, text: string): Parts => bytesField(field, Buffer.from(text));

/** A field with an integer; nothing for 0, the default. */
export function intField(field: number, value: number): Parts {
  if (value === 0) return [];
  const wide = value < 0 ? BigInt(value) : value;
  const tag = field * 8 + VARINT;
  const bytes = new Uint8Array(varintLength(tag) + varintLength(wide));
  putVarint(bytes, putVarint(bytes, 0, tag), wide);
  return [bytes];
}
