/**
 * The order-preserving encoding of numbers and strings in the keys of sliced tensors: encoded values
 * compare byte by byte like the values.
 */
import type { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';

const SEPARATOR = 0x01;
const ESCAPED_ZERO = 0xff;
const ESCAPED_FF = 0x00;
const MAX_SIGNED_BYTES = 10;

/** An unsigned number: one length byte, then the number in big-endian order without leading zeros. */
export function writeUnsigned(writer: ByteWriter, value: number): void {
  const digits: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  writer.u8(digits.length);
  for (const digit of digits) writer.u8(digit);
}

export function readUnsigned(reader: ByteReader, what: string): number {
  const length = reader.u8(what);
  if (length > 7) throw reader.corrupt(`${what} is too large`);
  let value = 0;
  for (let i = 0; i < length; i++) value = value * 256 + reader.u8(what);
  if (!Number.isSafeInteger(value)) throw reader.corrupt(`${what} is too large`);
  return value;
}

/** Bytes 0x00 and 0xff are escaped, so that 0x00 0x01 can end the string. */
export function writeString(writer: ByteWriter, value: Uint8Array): void {
  for (const byte of value) {
    writer.u8(byte);
    if (byte === 0x00) writer.u8(ESCAPED_ZERO);
    else if (byte === 0xff) writer.u8(ESCAPED_FF);
  }
  writer.u8(0x00).u8(SEPARATOR);
}

export function readString(reader: ByteReader, what: string): Uint8Array {
  const value = new ByteWriter();
  for (;;) {
    const byte = reader.u8(what);
    if (byte !== 0x00 && byte !== 0xff) {
      value.u8(byte);
      continue;
    }
    const next = reader.u8(what);
    if (byte === 0x00 && next === SEPARATOR) return value.take();
    if (next !== (byte === 0x00 ? ESCAPED_ZERO : ESCAPED_FF))
      throw reader.corrupt(`${what} has an invalid escape`);
    value.u8(byte);
  }
}

/**
 * A signed number in n bytes, n from 1 to 10: big-endian two's complement with its top n bits flipped. The encoding
 * then starts with n copies of the sign bit (1 for non-negative numbers).
 */
export function writeSigned(writer: ByteWriter, value: bigint): void {
  const magnitude = value < 0n ? ~value : value;
  let length = 1n;
  while (magnitude >> (7n * length - 1n) > 0n) length++;
  const encoded = BigInt.asUintN(Number(8n * length), value) ^ header(length);
  for (let shift = 8n * (length - 1n); shift >= 0n; shift -= 8n)
    writer.u8(Number((encoded >> shift) & 0xffn));
}

export function readSigned(reader: ByteReader, what: string): bigint {
  const first = reader.u8(what);
  let encoded = BigInt(first);
  let length = leadingSigns(first, first >= 0x80);
  if (length === 8) {
    const second = reader.u8(what);
    encoded = (encoded << 8n) | BigInt(second);
    length += leadingSigns(second, first >= 0x80);
    if (length > MAX_SIGNED_BYTES) throw reader.corrupt(`${what} is too large`);
    for (let i = 2; i < length; i++) encoded = (encoded << 8n) | BigInt(reader.u8(what));
  } else {
    for (let i = 1; i < length; i++) encoded = (encoded << 8n) | BigInt(reader.u8(what));
  }
  const value = BigInt.asIntN(8 * length, encoded ^ header(BigInt(length)));
  if (BigInt.asIntN(64, value) !== value) throw reader.corrupt(`${what} is too large`);
  return value;
}

function header(length: bigint): bigint {
  return ((1n << length) - 1n) << (7n * length);
}

function leadingSigns(byte: number, sign: boolean): number {
  return Math.clz32(((sign ? ~byte & 0xff : byte) << 24) | 0x800000);
}
