/**
 * Writes a stream to a file at the speed of its disk. Small chunks are gathered and written together, large ones are not
 * copied, and what is written is sent to the disk while more is written: a flush at the end alone would leave the disk
 * idle before it, and dirty memory without bound.
 */
import type { FileHandle } from 'node:fs/promises';
import { crc32c } from '../../bytes/crc32c.js';
import { slices } from '../sources.js';
import { ReadBack } from './read-back.js';

export interface DiskWriterOptions {
  /** Where the first byte goes. */
  readonly position?: number;
  /** The crc32c of what stands before it. */
  readonly crc32c?: number;
  /** Whether to sum what is taken in: true unless told. */
  readonly sums?: boolean;
  /** Whether to read everything back, right behind the writing; the file must begin here and be open for that. */
  readonly readBack?: boolean;
  /** Writes under way at once. With one, the file never has a hole, whatever happens. */
  readonly depth?: number;
  /** Whether chunks stay as they are until `drain`: then writing goes on while the next ones are made. */
  readonly keeps?: boolean;
}

/** Smaller chunks wait for others, to be written with one call. */
const GATHER_BYTES = 1 << 20;
const MAX_PIECES = 256;
/** Larger chunks are written in parts, so that the sum of one does not hold up everything else. */
const MAX_WRITE = 4 << 20;
const FLUSH_BYTES = 32 << 20;
/** More than this is not written ahead of the disk. */
const MAX_UNFLUSHED = 8 * FLUSH_BYTES;

export class DiskWriter {
  readonly #file: FileHandle;
  readonly #depth: number;
  readonly #sums: boolean;
  readonly #keeps: boolean;
  readonly #writes = new Set<Promise<void>>();
  /** Writes in the order of their places: those before the first that is not done are in the file. */
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

  /** One past the last byte taken in. */
  get position(): number {
    return this.#position;
  }

  /** The crc32c of everything taken in, if that is summed. */
  get crc32c(): number {
    return this.#crc;
  }

  /** Whether the disk refused something: then the file is not what was taken in. */
  get failed(): boolean {
    return this.#fault !== undefined;
  }

  /** Takes a chunk. Resolves when there is room for another. */
  async write(chunk: Uint8Array): Promise<void> {
    for (const piece of slices(chunk, MAX_WRITE)) {
      this.#throwFault();
      const isCopied = !this.#keeps && piece.byteLength < GATHER_BYTES;
      this.#pieces.push(isCopied ? Buffer.from(piece) : piece);
      this.#gathered += piece.byteLength;
      this.#position += piece.byteLength;
      if (this.#gathered >= GATHER_BYTES || this.#pieces.length >= MAX_PIECES) await this.#send();
      // Beside the write that was just begun.
      if (this.#sums) this.#crc = crc32c(piece, this.#crc);
    }
    if (!this.#keeps) await Promise.all(this.#writes);
    this.#throwFault();
  }

  /** Resolves when everything is in the file. */
  async drain(): Promise<void> {
    if (this.#pieces.length > 0) await this.#send();
    await Promise.all(this.#writes);
    await this.#flush;
    this.#throwFault();
  }

  /** Resolves when everything is on the disk. */
  async sync(): Promise<void> {
    await this.drain();
    await this.#file.datasync();
  }

  /** The crc32c of everything as the file gives it back, after `drain` or `sync`; undefined unless that was asked for. */
  async readBack(): Promise<number | undefined> {
    return this.#readBack?.end();
  }

  /** Begins to write what was gathered, as soon as there is room for another write. */
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

/** What is left of the pieces when the first bytes are gone. */
function dropped(pieces: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let left = bytes;
  for (const [index, piece] of pieces.entries()) {
    if (left < piece.byteLength) return [piece.subarray(left), ...pieces.slice(index + 1)];
    left -= piece.byteLength;
  }
  return [];
}
