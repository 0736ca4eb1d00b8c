/**
 * Sums a file while it is read, in bounded memory: the next piece is read while the last one is summed. A file that is
 * being written can be followed in this way, right behind its writer, so that reading it back costs no time of its own.
 */
import type { FileHandle } from 'node:fs/promises';
import { throwIfAborted } from '../async/deadline.js';
import { crc32c } from '../bytes/crc32c.js';
import { ShoalError } from '../errors/errors.js';

/** Small enough to stay in the cache of a core between being read and being summed. */
const PIECE_BYTES = 512 << 10;

/** The crc32c of the bytes from `start` up to `end`, which may grow meanwhile, after those that gave `seed`. */
export async function sumRange(
  file: FileHandle,
  start: number,
  end: () => number,
  { seed = 0, signal }: { readonly seed?: number; readonly signal?: AbortSignal | undefined } = {},
): Promise<{ readonly crc32c: number; readonly end: number }> {
  const buffers: readonly Uint8Array[] = [
    Buffer.allocUnsafeSlow(PIECE_BYTES),
    Buffer.allocUnsafeSlow(PIECE_BYTES),
  ];
  const read = (turn: number, at: number) =>
    at < end() ? file.read(buffers[turn]!, 0, Math.min(PIECE_BYTES, end() - at), at) : undefined;
  let [at, crc] = [start, seed];
  let next = read(0, at);
  for (let turn = 0; next !== undefined; turn ^= 1) {
    const { bytesRead } = await next;
    if (bytesRead === 0) throw new ShoalError('SHOAL_CORRUPT', 'a blob became shorter while it was read');
    throwIfAborted('reading a blob', signal);
    at += bytesRead;
    next = read(turn ^ 1, at);
    crc = crc32c(buffers[turn]!.subarray(0, bytesRead), crc);
  }
  return { crc32c: crc, end: at };
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
