/** Memory that a disk takes and gives without the page cache: it begins at a page, as memory of a Buffer does not. */

/** Positions and lengths of direct reads and writes are multiples of this. */
export const SECTOR = 4096;
const WASM_PAGE = 65_536;

const known = new WeakSet<ArrayBufferLike>();

interface WebAssemblyMemory {
  readonly Memory: new (size: { initial: number; maximum: number }) => { readonly buffer: ArrayBuffer };
}

/** Blocks of such memory, of a multiple of sectors each. */
export function alignedBlocks(count: number, bytes: number): Uint8Array[] {
  const pages = Math.ceil((count * bytes) / WASM_PAGE);
  const { Memory } = (globalThis as unknown as { readonly WebAssembly: WebAssemblyMemory }).WebAssembly;
  const { buffer } = new Memory({ initial: pages, maximum: pages });
  known.add(buffer);
  return Array.from({ length: count }, (_, i) => new Uint8Array(buffer, i * bytes, bytes));
}

/** Whether a file can be read from a position directly to this memory. */
export function isAligned({ buffer, byteOffset, byteLength }: Uint8Array, position: number): boolean {
  return (
    known.has(buffer) &&
    byteOffset % SECTOR === 0 &&
    byteLength % SECTOR === 0 &&
    position % SECTOR === 0 &&
    byteLength > 0
  );
}
