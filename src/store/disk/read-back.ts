/**
 * Sums a file while it is read, in bounded memory: other pieces are read while one is summed. A file that is
 * being written can be followed in this way, right behind its writer, so that reading it back costs no time of its own.
 */
import type { FileHandle } from 'node:fs/promises';
import { throwIfAborted } from '../../async/deadline.js';
import { crc32c } from '../../bytes/crc32c.js';
import { ShoalError } from '../../errors/errors.js';
import { SECTOR } from './aligned.js';

/** Small enough to stay in the cache of a core between being read and being summed. */
const PIECE_BYTES = 512 << 10;

export interface SumOptions {
  /** The crc32c of what stands before. */
  readonly seed?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Where to read to, as many pieces at once; of a file that is open for direct reads, whole sectors. */
  readonly memory?: readonly Uint8Array[] | undefined;
}

/** The crc32c of the bytes from `start` up to `end`, which may grow meanwhile. */
export async function sumRange(
  file: FileHandle,
  start: number,
  end: () => number,
  { seed = 0, signal, memory = [1, 2].map(() => Buffer.allocUnsafeSlow(PIECE_BYTES)) }: SumOptions = {},
): Promise<{ readonly crc32c: number; readonly end: number }> {
  const reads: Promise<Uint8Array>[] = [];
  let [next, at, crc, turn] = [start, start, seed, 0];
  const readMore = () => {
    for (; reads.length < memory.length && next < end(); turn++) {
      const into = memory[turn % memory.length]!;
      const size = Math.min(into.byteLength, end() - next);
      const read = fillFrom(file, next, into, size).then(() => into.subarray(0, size));
      // Awaited in its turn.
      read.catch(() => {});
      reads.push(read);
      next += size;
    }
  };
  try {
    for (readMore(); reads.length > 0; readMore()) {
      const bytes = await reads[0]!;
      throwIfAborted('reading a blob', signal);
      crc = crc32c(bytes, crc);
      at += bytes.byteLength;
      reads.shift();
    }
    return { crc32c: crc, end: at };
  } finally {
    // The memory may be of other use then, and the file be closed.
    await Promise.allSettled(reads);
  }
}

/** Fills a buffer, or as many of its bytes as are wanted, with those of a file from a position on; by whole sectors. */
export async function fillFrom(
  file: FileHandle,
  position: number,
  buffer: Uint8Array,
  size = buffer.byteLength,
): Promise<void> {
  for (let done = 0; done < size; ) {
    const wanted = Math.min(buffer.byteLength - done, Math.ceil((size - done) / SECTOR) * SECTOR);
    const { bytesRead } = await file.read(buffer, done, wanted, position + done);
    if (bytesRead === 0) throw new ShoalError('SHOAL_CORRUPT', 'a blob became shorter while it was read');
    done += bytesRead;
  }
}

/** Follows the writer of a file from its first byte on. */
export class ReadBack {
  readonly #file: FileHandle;
  #goal = 0;
  #position = 0;
  #crc = 0;
  #running: Promise<void> | undefined;
  #fault: { readonly error: unknown } | undefined;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Says that all bytes up to here are in the file. */
  reach(position: number): void {
    this.#goal = Math.max(this.#goal, position);
    if (this.#fault === undefined) this.#running ??= this.#run();
  }

  /** The sum of all that was reached, when it has been read. */
  async end(): Promise<number> {
    await this.#running;
    if (this.#fault !== undefined) throw this.#fault.error;
    return this.#crc;
  }

  async #run(): Promise<void> {
    try {
      while (this.#position < this.#goal) {
        const sum = await sumRange(this.#file, this.#position, () => this.#goal, { seed: this.#crc });
        this.#position = sum.end;
        this.#crc = sum.crc32c;
      }
    } catch (error) {
      this.#fault = { error };
    } finally {
      this.#running = undefined;
    }
  }
}
