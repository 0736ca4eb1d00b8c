/**
 * crc32c as used in TensorFlow's files, and the masking of stored crcs.
 *
 * Long inputs use native code: that of an npm package, or a faster one (`native/crc32c-library.ts`). A native call costs
 * as much as about a hundred bytes in JavaScript, so short inputs such as record headers use a table.
 */
import { crc32c as packageCrc32c } from '@node-rs/crc32';

const SHORT = 32;
const POLYNOMIAL = 0x82f63b78;
const MASK_DELTA = 0xa282ead8;

const TABLE: Int32Array = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});

export type Crc32c = (bytes: Uint8Array, seed?: number) => number;

let longCrc32c: Crc32c = packageCrc32c;

/** Uses this function for long inputs from now on; returns false, and does not use it, if it computes another value. */
export function useCrc32c(native: Crc32c): boolean {
  const sample = Uint8Array.from({ length: 5_003 }, (_, i) => i ^ (i >> 8));
  if (native(sample, 7) !== packageCrc32c(sample, 7)) return false;
  longCrc32c = native;
  return true;
}

function shortCrc32c(bytes: Uint8Array, seed: number): number {
  let crc = ~seed;
  for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ TABLE[(crc ^ bytes[i]!) & 0xff]!;
  return ~crc >>> 0;
}

/** The crc32c of `bytes`; with the crc of preceding data as `seed`, the crc of both together. */
export function crc32c(bytes: Uint8Array, seed = 0): number {
  return bytes.length <= SHORT ? shortCrc32c(bytes, seed) : longCrc32c(bytes, seed);
}

/** The stored form of `crc`: unmasked crcs would weaken a crc over data that contains crcs. */
export function maskCrc(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}

export function unmaskCrc(masked: number): number {
  const rotated = (masked - MASK_DELTA) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
}
