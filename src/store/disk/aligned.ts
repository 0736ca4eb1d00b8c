/** Memory that a disk takes and gives without the page cache: it begins at a page, as memory of a Buffer does not. */
import { addressOf } from '../../native/buffer.js';

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

/** Blocks of one size that nobody uses: fresh ones cost more than what is done with them, and make V8 collect garbage. */
const idle: Uint8Array[] = [];
export const BLOCK_BYTES = 4 << 20;
const MAX_IDLE = 8;

/** A block of that size, with anything in it. */
export function takeBlock(): Uint8Array {
  return idle.pop() ?? alignedBlocks(1, BLOCK_BYTES)[0]!;
}

/** A block of `takeBlock`, or a view of it, when nothing reads or writes it any more. Other memory is left alone. */
export function giveBlock({ buffer }: Uint8Array): void {
  if (known.has(buffer) && buffer.byteLength === BLOCK_BYTES && idle.length < MAX_IDLE)
    idle.push(new Uint8Array(buffer));
}

/** How far behind the beginning of a sector's worth of memory bytes lie, where that is known. */
export function placeInSector(bytes: Uint8Array): number | undefined {
  if (known.has(bytes.buffer)) return bytes.byteOffset % SECTOR;
  const address = addressOf(bytes);
  return address === undefined ? undefined : Number(address % BigInt(SECTOR));
}

/** Whether a file can be read from a position directly to this memory. */
export function isAligned(bytes: Uint8Array, position: number): boolean {
  const { byteLength } = bytes;
  const areWhole = byteLength > 0 && byteLength % SECTOR === 0 && position % SECTOR === 0;
  return areWhole && placeInSector(bytes) === 0;
}
