/**
 * Base-128 varints of 64 bits, as protocol buffers and TensorFlow's tables use them.
 *
 * Numbers up to 2^53 avoid BigInt. A bigint is encoded modulo 2^64, so negative values take ten bytes in two's
 * complement, as in protocol buffers.
 */
import { invalid } from '../errors/errors.js';

export const MAX_VARINT_BYTES = 10;

/** The encoded length of `value` in bytes. */
export function varintLength(value: number | bigint): number {
  if (typeof value === 'bigint') {
    let length = 1;
    for (let rest = BigInt.asUintN(64, value) >> 7n; rest > 0n; rest >>= 7n) length++;
    return length;
  }
  let length = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length++;
  return length;
}

/** Writes `value` at `offset` and returns the offset after it; the target must be large enough. */
export function putVarint(target: Uint8Array, offset: number, value: number | bigint): number {
  if (typeof value === 'bigint') return putBigVarint(target, offset, value);
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalid(`a varint needs an integer in [0, 2^53); got ${value}`, {
      hint: 'pass a bigint for larger or negative numbers',
    });
  }
  while (value > 0x7fffffff) {
    target[offset++] = (value % 128) | 0x80;
    value = Math.floor(value / 128);
  }
  return putSmall(target, offset, value);
}

function putSmall(target: Uint8Array, offset: number, value: number): number {
  while (value >= 0x80) {
    target[offset++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  target[offset++] = value;
  return offset;
}

function putBigVarint(target: Uint8Array, offset: number, value: bigint): number {
  let rest = BigInt.asUintN(64, value);
  while (rest > 0x7fffffffn) {
    target[offset++] = Number(rest & 0x7fn) | 0x80;
    rest >>= 7n;
  }
  return putSmall(target, offset, Number(rest));
}
