/** Page-aligned memory for direct I/O, which bypasses the page cache. The memory of a Buffer is not aligned. */
import { addressOf } from '../../../tensorflow/native/buffer.js';

/** Positions and lengths of direct reads and writes are multiples of this. */
export const SECTOR = 4096;
const WASM_PAGE = 65_536;

const known = new WeakSet<ArrayBufferLike>();

interface WebAssemblyMemory {
  readonly Memory: new (size: { initial: number; maximum: number }) => { readonly buffer: ArrayBuffer };
}

/** Allocates aligned blocks; `bytes` is a multiple of SECTOR. */
export function alignedBlocks(count: number, bytes: number): Uint8Array[] {
  const pages = Math.ceil((count * bytes) / WASM_PAGE);
  const { Memory } = (globalThis as unknown as { readonly WebAssembly: WebAssemblyMemory }).WebAssembly;
  const { buffer } = new Memory({ initial: pages, maximum: pages });
  known.add(buffer);
  return Array.from({ length: count }, (_, i) => new Uint8Array(buffer, i * bytes, bytes));
}

/** A pool of unused blocks: allocating one costs more than its use, and triggers garbage collection. */
const idle: Uint8Array[] = [];
export const BLOCK_BYTES = 4 << 20;
const MAX_IDLE = 8;

/** A block of BLOCK_BYTES, not cleared. */
export function takeBlock(): Uint8Array {
  return idle.pop() ?? alignedBlocks(1, BLOCK_BYTES)[0]!;
}

/** Returns a block of `takeBlock`, or a view of it, to the pool. Ignores other memory. */
export function giveBlock({ buffer }: Uint8Array): void {
  if (known.has(buffer) && buffer.byteLength === BLOCK_BYTES && idle.length < MAX_IDLE)
    idle.push(new Uint8Array(buffer));
}

/** The offset of memory from a sector boundary; undefined if unknown. */
export function offsetInSector(bytes: Uint8Array): number | undefined {
  if (known.has(bytes.buffer)) return bytes.byteOffset % SECTOR;
  const address = addressOf(bytes);
  return address === undefined ? undefined : Number(address % BigInt(SECTOR));
}

/** Whether direct I/O can read from the position to this memory. */
export function isAligned(bytes: Uint8Array, position: number): boolean {
  const { byteLength } = bytes;
  const isMultiple = byteLength > 0 && byteLength % SECTOR === 0 && position % SECTOR === 0;
  return isMultiple && offsetInSector(bytes) === 0;
}
