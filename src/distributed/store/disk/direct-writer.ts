/**
 * Writes a stream to a file with O_DIRECT, bypassing the page cache. Direct writes need complete sectors in aligned
 * memory. Large chunks whose alignment matches their position in the file are written without a copy if they stay valid
 * long enough. The rest is copied into aligned blocks; the last one is padded, and the file truncated to its length.
 *
 * With `readBack` all bytes are read from the disk again and summed, 64 MiB at a time: alternating long reads and
 * writes is faster than mixing them.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { slices } from '../sources.js';
import { alignedBlocks, giveBlock, offsetInSector, SECTOR, takeBlock } from './aligned.js';
import { codeOf } from './blob-disk.js';
import { sumRange } from './read-back.js';

/** Four pieces, which make one block, are written concurrently: faster and with less memory than larger ones. */
const PIECE_BYTES = 1 << 20;
const AT_ONCE = 4;
/** Shorter ranges are copied. */
const MIN_UNCOPIED_BYTES = 256 << 10;
/** Bytes written between two read-backs. */
const READ_BACK_BYTES = 64 << 20;

/** Opens a new file for direct writes; undefined if the file system does not support them. */
export async function openDirect(path: string): Promise<FileHandle | undefined> {
  if (constants.O_DIRECT === undefined) return undefined;
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_DIRECT;
  let file: FileHandle | undefined;
  try {
    file = await open(path, flags, 0o666);
    // Some file systems accept the open and refuse the first write.
    await file.write(alignedBlocks(1, SECTOR)[0]!, 0, SECTOR, 0);
    return file;
  } catch (error) {
    await file?.close();
    if (file) await rm(path, { force: true });
    if (codeOf(error) === 'EINVAL') return undefined;
    throw error;
  }
}

export interface DirectWriterOptions {
  readonly readBack: boolean;
  /** Whether a chunk stays valid until the chunk after the next one is written; default: false. */
  readonly lasting?: boolean;
}

export class DirectWriter {
  readonly #file: FileHandle;
  readonly #lasting: boolean;
  readonly #block = takeBlock();
  readonly #free: Uint8Array[] = [...slices(this.#block, PIECE_BYTES)];
  readonly #busy = new Set<Promise<void>>();
  readonly #again: Uint8Array | undefined;
  /** The piece being filled. */
  #piece: Uint8Array | undefined;
  #filled = 0;
  /** The position of the current piece in the file. */
  #start = 0;
  /** The end of what was read back. */
  #readTo = 0;
  #crc = 0;
  #fault: { readonly error: unknown } | undefined;

  constructor(file: FileHandle, { readBack, lasting = false }: DirectWriterOptions) {
    this.#file = file;
    this.#lasting = lasting;
    this.#again = readBack ? takeBlock() : undefined;
  }

  /** The number of bytes written so far. */
  get position(): number {
    return this.#start + this.#filled;
  }

  /** The crc32c of the bytes read back, after `sync`; undefined without `readBack`. */
  async readBack(): Promise<number | undefined> {
    return this.#again && this.#crc;
  }

  /** Writes a chunk. Resolves when it can accept another. */
  async write(chunk: Uint8Array): Promise<void> {
    const earlier = [...this.#busy];
    const [head, uncopied] = this.#split(chunk);
    await this.#copy(chunk.subarray(0, head));
    if (uncopied > 0 && this.#filled > 0) this.#sendPiece();
    for (const piece of slices(chunk.subarray(head, head + uncopied), PIECE_BYTES)) {
      while (this.#busy.size >= AT_ONCE) await Promise.race(this.#busy);
      this.#throwFault();
      this.#send(piece);
    }
    await this.#copy(chunk.subarray(head + uncopied));
    await Promise.all(earlier);
    this.#throwFault();
    if (this.#start - this.#readTo >= READ_BACK_BYTES) await this.#readUpTo(this.#start);
  }

  /** Resolves when all bytes are on the disk, and read back if requested. The writer cannot be used afterwards. */
  async sync(): Promise<void> {
    const size = this.position;
    if (this.#filled > 0) this.#sendPiece();
    await Promise.all(this.#busy);
    this.#throwFault();
    if (size % SECTOR !== 0) await this.#file.truncate(size);
    // The data is on the disk already: this flushes the disk's own cache and the file's metadata.
    await Promise.all([this.#file.datasync(), this.#readUpTo(size)]);
    giveBlock(this.#block);
    if (this.#again) giveBlock(this.#again);
    this.#free.length = 0;
  }

  /** The lengths of a chunk's first copied part and of the uncopied part after it. */
  #split(chunk: Uint8Array): readonly [number, number] {
    const offset = this.#lasting ? offsetInSector(chunk) : undefined;
    if (offset === undefined || offset !== this.position % SECTOR) return [0, 0];
    const head = (SECTOR - offset) % SECTOR;
    const uncopied = Math.floor((chunk.byteLength - head) / SECTOR) * SECTOR;
    return uncopied >= MIN_UNCOPIED_BYTES ? [head, uncopied] : [0, 0];
  }

  async #copy(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength; ) {
      while (!this.#piece && this.#free.length === 0) await Promise.race(this.#busy);
      this.#throwFault();
      this.#piece ??= this.#free.pop()!;
      const size = Math.min(bytes.byteLength - at, PIECE_BYTES - this.#filled);
      this.#piece.set(bytes.subarray(at, at + size), this.#filled);
      at += size;
      this.#filled += size;
      if (this.#filled === PIECE_BYTES) this.#sendPiece();
    }
  }

  #sendPiece(): void {
    const [piece, filled] = [this.#piece!, this.#filled];
    const size = Math.ceil(filled / SECTOR) * SECTOR;
    piece.fill(0, filled, size);
    this.#piece = undefined;
    this.#filled = 0;
    this.#send(piece.subarray(0, size), filled, () => this.#free.push(piece));
  }

  /** Starts writing complete sectors; `bytes` excludes the padding. */
  #send(sectors: Uint8Array, bytes = sectors.byteLength, whenDone = () => {}): void {
    const work = this.#put(sectors, this.#start)
      .catch((error: unknown) => {
        this.#fault ??= { error };
      })
      .finally(() => {
        this.#busy.delete(work);
        whenDone();
      });
    this.#start += bytes;
    this.#busy.add(work);
  }

  async #put(sectors: Uint8Array, start: number): Promise<void> {
    const size = sectors.byteLength;
    for (let at = 0; at < size; ) {
      const { bytesWritten } = await this.#file.write(sectors, at, size - at, start + at);
      // A nearly full disk may write part of a sector; the next write then fails.
      at += bytesWritten - (bytesWritten % SECTOR);
      if (bytesWritten < SECTOR) throw noSpaceLeft();
    }
  }

  async #readUpTo(end: number): Promise<void> {
    if (!this.#again) return;
    await Promise.all(this.#busy);
    this.#throwFault();
    const memory = [...slices(this.#again, PIECE_BYTES)];
    const { crc32c } = await sumRange(this.#file, this.#readTo, () => end, { seed: this.#crc, memory });
    this.#crc = crc32c;
    this.#readTo = end;
  }

  #throwFault(): void {
    if (this.#fault !== undefined) throw this.#fault.error;
  }
}

const noSpaceLeft = () => Object.assign(new Error('no space left on the disk'), { code: 'ENOSPC' });
