/**
 * Writes a stream to a file at the speed of its disk. Small chunks are combined, large ones are not copied, and data is
 * flushed while more is written: a single flush at the end would leave the disk idle before it, and the amount of dirty
 * memory unbounded.
 */
import type { FileHandle } from 'node:fs/promises';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { slices } from '../sources.js';
import { ReadBack } from './read-back.js';

export interface DiskWriterOptions {
  /** The position of the first byte; default: 0. */
  readonly position?: number;
  /** The crc32c of the bytes before it; default: 0. */
  readonly crc32c?: number;
  /** Whether to compute the crc32c; default: true. */
  readonly sums?: boolean;
  /** Whether to read the bytes back while writing. Needs position 0 and a readable file. Default: false. */
  readonly readBack?: boolean;
  /** Concurrent writes; with 1 the file never has a gap. Default: 4. */
  readonly depth?: number;
  /** Whether chunks stay valid until `drain`, so that `write` need not wait for the disk; default: false. */
  readonly keeps?: boolean;
}

/** Smaller chunks are combined into one write. */
const GATHER_BYTES = 1 << 20;
const MAX_PIECES = 256;
/** Larger chunks are split, so that summing one does not block the event loop for long. */
const MAX_WRITE = 4 << 20;
const FLUSH_BYTES = 32 << 20;
/** The most bytes written and not yet flushed. */
const MAX_UNFLUSHED = 8 * FLUSH_BYTES;

export class DiskWriter {
  readonly #file: FileHandle;
  readonly #depth: number;
  readonly #sums: boolean;
  readonly #keeps: boolean;
  readonly #writes = new Set<Promise<void>>();
  /** Writes in the order of their positions: all before the first unfinished one are in the file. */
  readonly #inOrder: { readonly end: number; isDone: boolean }[] = [];
  readonly #readBack: ReadBack | undefined;
  #pieces: Uint8Array[] = [];
  #gathered = 0;
  #position: number;
  #crc: number;
  #written = 0;
  #flushed = 0;
  #flush: Promise<void> | undefined;
  #fault: { readonly error: unknown } | undefined;

  constructor(file: FileHandle, options: DiskWriterOptions = {}) {
    const {
      position = 0,
      crc32c: crc = 0,
      depth = 4,
      sums = true,
      keeps = false,
      readBack = false,
    } = options;
    this.#file = file;
    this.#position = position;
    this.#crc = crc;
    this.#depth = depth;
    this.#sums = sums;
    this.#keeps = keeps;
    this.#readBack = readBack ? new ReadBack(file) : undefined;
  }

  /** The end of the bytes written so far. */
  get position(): number {
    return this.#position;
  }

  /** The crc32c of the bytes written so far, with `sums`. */
  get crc32c(): number {
    return this.#crc;
  }

  /** Whether a write failed: then the file is incomplete. */
  get failed(): boolean {
    return this.#fault !== undefined;
  }

  /** Writes a chunk. Resolves when it can accept another. */
  async write(chunk: Uint8Array): Promise<void> {
    for (const piece of slices(chunk, MAX_WRITE)) {
      this.#throwFault();
      const isCopied = !this.#keeps && piece.byteLength < GATHER_BYTES;
      this.#pieces.push(isCopied ? Buffer.from(piece) : piece);
      this.#gathered += piece.byteLength;
      this.#position += piece.byteLength;
      if (this.#gathered >= GATHER_BYTES || this.#pieces.length >= MAX_PIECES) await this.#send();
      // Runs while the write is in progress.
      if (this.#sums) this.#crc = crc32c(piece, this.#crc);
    }
    if (!this.#keeps) await Promise.all(this.#writes);
    this.#throwFault();
  }

  /** Resolves when all bytes are in the file. */
  async drain(): Promise<void> {
    if (this.#pieces.length > 0) await this.#send();
    await Promise.all(this.#writes);
    await this.#flush;
    this.#throwFault();
  }

  /** Resolves when all bytes are on the disk. */
  async sync(): Promise<void> {
    await this.drain();
    await this.#file.datasync();
  }

  /** The crc32c of the bytes read back, after `drain` or `sync`; undefined without `readBack`. */
  async readBack(): Promise<number | undefined> {
    return this.#readBack?.end();
  }

  /** Starts writing the gathered chunks, once fewer than `depth` writes are in progress. */
  async #send(): Promise<void> {
    while (this.#writes.size >= this.#depth) await Promise.race(this.#writes);
    while (this.#flush !== undefined && this.#written - this.#flushed > MAX_UNFLUSHED) await this.#flush;
    this.#throwFault();
    const size = this.#gathered;
    const place = { end: this.#position, isDone: false };
    this.#inOrder.push(place);
    const write = writeAll(this.#file, this.#pieces, this.#position - size)
      .then(
        () => this.#wrote(size, place),
        (error: unknown) => {
          this.#fault ??= { error };
        },
      )
      .finally(() => this.#writes.delete(write));
    this.#pieces = [];
    this.#gathered = 0;
    this.#writes.add(write);
  }

  #wrote(size: number, place: { isDone: boolean }): void {
    this.#written += size;
    place.isDone = true;
    for (let first = this.#inOrder[0]; first?.isDone; first = this.#inOrder[0]) {
      this.#inOrder.shift();
      this.#readBack?.reach(first.end);
    }
    if (this.#flush !== undefined || this.#written - this.#flushed < FLUSH_BYTES || this.#fault) return;
    const upTo = this.#written;
    this.#flush = this.#file
      .datasync()
      .then(
        () => {
          this.#flushed = upTo;
        },
        (error: unknown) => {
          this.#fault ??= { error };
        },
      )
      .finally(() => {
        this.#flush = undefined;
      });
  }

  #throwFault(): void {
    if (this.#fault !== undefined) throw this.#fault.error;
  }
}

async function writeAll(file: FileHandle, pieces: readonly Uint8Array[], position: number): Promise<void> {
  let left = pieces;
  for (let at = position; left.length > 0; ) {
    const { bytesWritten } =
      left.length === 1
        ? await file.write(left[0]!, 0, left[0]!.byteLength, at)
        : await file.writev(left, at);
    at += bytesWritten;
    left = dropped(left, bytesWritten);
  }
}

/** The pieces without their first `bytes` bytes. */
function dropped(pieces: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let left = bytes;
  for (const [index, piece] of pieces.entries()) {
    if (left < piece.byteLength) return [piece.subarray(left), ...pieces.slice(index + 1)];
    left -= piece.byteLength;
  }
  return [];
}
