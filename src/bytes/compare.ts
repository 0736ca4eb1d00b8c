/** The order of byte strings: by their first differing byte, unsigned, a prefix before what it begins. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}
