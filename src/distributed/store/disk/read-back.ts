/**
 * Sums a file in bounded memory: one piece is summed while others are read. ReadBack follows the writer of a file, so
 * that reading the file back takes no extra time.
 */
import type { FileHandle } from 'node:fs/promises';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { SECTOR } from './aligned.js';

/** Fits the CPU cache between reading and summing. */
const PIECE_BYTES = 512 << 10;

export interface SumOptions {
  /** The crc32c of the bytes before `start`; default: 0. */
  readonly seed?: number;
  readonly signal?: AbortSignal;
  /** The buffers of the concurrent reads; direct reads need aligned ones. Default: two of 512 KiB. */
  readonly memory?: readonly Uint8Array[];
}

/** The crc32c of the bytes `[start, end())`; the end may grow meanwhile. */
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
      // Awaited later.
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
    // The caller may then reuse the memory and close the file.
    await Promise.allSettled(reads);
  }
}

/** What is read at positions: an open file. */
export interface PositionalReads {
  read(
    buffer: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number }>;
}

/** Fills the first `size` bytes of a buffer from a position in a file. Reads complete sectors. */
export async function fillFrom(
  file: PositionalReads,
  position: number,
  buffer: Uint8Array,
  size = buffer.byteLength,
): Promise<void> {
  for (let done = 0; done < size; ) {
    const wanted = Math.min(buffer.byteLength - done, Math.ceil((size - done) / SECTOR) * SECTOR);
    const { bytesRead } = await file.read(buffer, done, wanted, position + done);
    if (bytesRead === 0) throw new ShoalError('SHOAL_CORRUPT', 'the blob was truncated while being read');
    done += bytesRead;
  }
}

/** Sums a file from its first byte on while it is written. */
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

  /** Reports that all bytes before `position` are in the file. */
  reach(position: number): void {
    this.#goal = Math.max(this.#goal, position);
    if (this.#fault === undefined) this.#running ??= this.#run();
  }

  /** Resolves with the sum of all reported bytes. */
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
