/**
 * crc32c as TensorFlow's files use it, and the mask that it puts over a stored one.
 *
 * Long inputs go to native code (SIMD). A call into it costs as much as some hundred bytes in JavaScript,
 * so the very short inputs of record headers are done here by table.
 */
import { crc32c as nativeCrc32c } from '@node-rs/crc32';

const SHORT = 32;
const POLYNOMIAL = 0x82f63b78;
const MASK_DELTA = 0xa282ead8;

const TABLE: Int32Array = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});

function shortCrc32c(bytes: Uint8Array, seed: number): number {
  let crc = ~seed;
  for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ TABLE[(crc ^ bytes[i]!) & 0xff]!;
  return ~crc >>> 0;
}

/** The crc32c of `bytes`; with `seed` the crc of what came before, that of both together. */
export function crc32c(bytes: Uint8Array, seed = 0): number {
  return bytes.length <= SHORT ? shortCrc32c(bytes, seed) : nativeCrc32c(bytes, seed);
}

/** The crc32c of two byte strings one behind the other, of their crcs and the length of the second. */
export function joinCrc32c(first: number, second: number, secondLength: number): number {
  if (secondLength === 0) return first;
  let crc = first;
  // Each pass appends 2^bit zero bits to what `crc` covers: a linear map over bits, squared from pass to pass.
  let zeros = square(square(square(ONE_ZERO_BIT)));
  for (let left = secondLength; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) crc = apply(zeros, crc);
    if (left > 1) zeros = square(zeros);
  }
  return (crc ^ second) >>> 0;
}

/** What one zero bit more does to a crc, as a matrix over bits: a column for each bit of the crc. */
const ONE_ZERO_BIT: Uint32Array = Uint32Array.from({ length: 32 }, (_, bit) =>
  bit === 0 ? POLYNOMIAL : 2 ** (bit - 1),
);

function apply(matrix: Uint32Array, vector: number): number {
  let sum = 0;
  for (let bit = 0; bit < 32; bit++) if ((vector >>> bit) & 1) sum ^= matrix[bit]!;
  return sum >>> 0;
}

function square(matrix: Uint32Array): Uint32Array {
  return matrix.map((column) => apply(matrix, column));
}

/** What a file stores for `crc`: a crc over bytes that contain crcs would otherwise be weak. */
export function maskCrc(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}

export function unmaskCrc(masked: number): number {
  const rotated = (masked - MASK_DELTA) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
}
