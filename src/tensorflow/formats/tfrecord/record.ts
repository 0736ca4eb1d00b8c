/**
 * The frame of a record in a TFRecord file:
 *
 *   fixed64 length · masked crc32c of the length · data · masked crc32c of the data
 */
import { crc32c, maskCrc } from '../../../base/bytes/crc32c.js';

export const RECORD_HEADER_BYTES = 12;
export const RECORD_FOOTER_BYTES = 4;

/** Writes a framed record at `offset` of `target`, which must be large enough; returns the offset after it. */
export function putRecord(target: Uint8Array, offset: number, data: Uint8Array): number {
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  const { length } = data;
  view.setUint32(offset, length, true);
  view.setUint32(offset + 4, Math.floor(length / 2 ** 32), true);
  view.setUint32(offset + 8, maskCrc(crc32c(target.subarray(offset, offset + 8))), true);
  target.set(data, offset + RECORD_HEADER_BYTES);
  const end = offset + RECORD_HEADER_BYTES + length;
  view.setUint32(end, maskCrc(crc32c(data)), true);
  return end + RECORD_FOOTER_BYTES;
}

export function encodeRecord(data: Uint8Array): Uint8Array {
  const framed = new Uint8Array(RECORD_HEADER_BYTES + data.length + RECORD_FOOTER_BYTES);
  putRecord(framed, 0, data);
  return framed;
}
