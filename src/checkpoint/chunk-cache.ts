/**
 * Chunks of files in memory that is used again and again: fresh memory costs more than reading into it. A chunk stays as
 * it is while somebody has it, and a few are kept that nobody has, for a neighbour that wants the rest of them.
 */
import { giveBlock, takeBlock } from '../store/disk/aligned.js';

/** Fills the memory, or some of its first bytes, and gives back what it has filled; or takes other memory. */
export type Fetch = (memory: Uint8Array) => Promise<Uint8Array>;

export interface Chunk {
  readonly bytes: Promise<Uint8Array>;
}

interface Entry extends Chunk {
  users: number;
}

const KEPT = 4;

export class ChunkCache {
  /** Those that have been of use last are the last. */
  readonly #entries = new Map<string, Entry>();

  /** The chunk of that name, fetched unless it is here. Each call is followed by a `release`. */
  acquire(name: string, fetch: Fetch): Chunk {
    let entry = this.#entries.get(name);
    if (!entry) {
      entry = { bytes: fetch(takeBlock()), users: 0 };
      this.#entries.set(name, entry);
      // Whoever has it is told; what failed may be tried again, in other memory.
      entry.bytes.catch(() => this.#entries.delete(name));
    }
    entry.users += 1;
    return entry;
  }

  release(name: string, chunk: Chunk): void {
    const entry = chunk as Entry;
    entry.users -= 1;
    if (entry.users > 0 || this.#entries.get(name) !== entry) return;
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    this.#forget(KEPT);
  }

  /** Nobody will want any of them. */
  clear(): void {
    this.#forget(0);
  }

  /** Those that nobody has, but for so many. */
  #forget(but: number): void {
    const idle = [...this.#entries].filter(([, { users }]) => users === 0);
    for (const [old, { bytes }] of idle.slice(0, Math.max(0, idle.length - but))) {
      this.#entries.delete(old);
      bytes.then(giveBlock, () => {});
    }
  }
}
