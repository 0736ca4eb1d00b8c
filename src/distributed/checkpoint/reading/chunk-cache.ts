/**
 * Chunks of files in reused memory: allocating memory costs more than reading into it. A chunk is unchanged while it is
 * acquired. A few released chunks stay cached for a reader of the adjacent range.
 */
import { giveBlock, takeBlock } from '../../store/disk/aligned.js';

/** Fills a prefix of the memory and returns the filled part; may return other memory instead. */
export type ChunkFetch = (memory: Uint8Array) => Promise<Uint8Array>;

export interface Chunk {
  readonly bytes: Promise<Uint8Array>;
}

interface Entry extends Chunk {
  users: number;
}

const KEPT = 4;

export class ChunkCache {
  /** In least-recently-used order. */
  readonly #entries = new Map<string, Entry>();

  /** The chunk of that name, fetched unless cached. Each call needs a `release`. */
  acquire(name: string, fetch: ChunkFetch): Chunk {
    let entry = this.#entries.get(name);
    if (!entry) {
      entry = { bytes: fetch(takeBlock()), users: 0 };
      this.#entries.set(name, entry);
      // The users of the entry see the error. A later acquire fetches again, into other memory.
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

  /** Drops all released chunks. */
  clear(): void {
    this.#forget(0);
  }

  /** Drops released chunks except the `keep` most recently used. */
  #forget(keep: number): void {
    const idle = [...this.#entries].filter(([, { users }]) => users === 0);
    for (const [old, { bytes }] of idle.slice(0, Math.max(0, idle.length - keep))) {
      this.#entries.delete(old);
      bytes.then(giveBlock, () => {});
    }
  }
}
