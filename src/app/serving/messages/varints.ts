/**
 * Packed varints to and from typed arrays. The loops work on 32-bit halves: a BigInt for each element would cost more
 * than the run of a small model.
 */
import { malformed } from './wire-reader.js';

const IS_BIG = (array: NodeJS.TypedArray): array is BigInt64Array | BigUint64Array =>
  array instanceof BigInt64Array || array instanceof BigUint64Array;

/** Reads varints until the target is full or the bytes end; returns how many. Further ones are ignored. */
export function readVarints(bytes: Uint8Array, target: NodeJS.TypedArray): number {
  const isBig = IS_BIG(target);
  const words = isBig
    ? new Int32Array(target.buffer, target.byteOffset, target.length * 2)
    : (target as Int32Array);
  const size = target.length;
  let at = 0;
  let count = 0;
  while (at < bytes.length && count < size) {
    let byte = bytes[at++] as number;
    let low = byte & 0x7f;
    let high = 0;
    for (let i = 1; byte >= 0x80; i++) {
      if (at === bytes.length || i === 10) throw malformed();
      byte = bytes[at++] as number;
      const part = byte & 0x7f;
      if (i < 4) low |= part << (7 * i);
      else if (i === 4) {
        low |= part << 28;
        high = part >> 4;
      } else high |= part << (7 * i - 32);
    }
    if (isBig) {
      words[count * 2] = low;
      words[count * 2 + 1] = high;
    } else words[count] = low;
    count += 1;
  }
  return count;
}

/** The elements as packed varints; negative ones have ten bytes, as 64-bit two's complement. */
export function writeVarints(source: NodeJS.TypedArray): Uint8Array {
  const isBig = IS_BIG(source);
  const isUnsigned = source instanceof Uint32Array;
  const words = isBig
    ? new Int32Array(source.buffer, source.byteOffset, source.length * 2)
    : (source as Int32Array);
  const target = Buffer.allocUnsafe(source.length * 10);
  let at = 0;
  for (let i = 0; i < source.length; i++) {
    let low = words[isBig ? i * 2 : i] as number;
    let high = isBig ? (words[i * 2 + 1] as number) : low < 0 && !isUnsigned ? -1 : 0;
    low |= 0;
    while (high !== 0 || low < 0 || low > 0x7f) {
      target[at++] = (low & 0x7f) | 0x80;
      low = (low >>> 7) | (high << 25);
      high >>>= 7;
    }
    target[at++] = low;
  }
  return target.subarray(0, at);
}
