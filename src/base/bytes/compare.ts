/** Lexicographic order of byte strings: unsigned bytes, a prefix first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}
