/**
 * Writes a stream to a file past the page cache (O_DIRECT), and no memory is claimed for the cache. The disk takes whole
 * sectors, from memory that begins at a page. Large chunks that lie in memory as they will lie in the file, and that stay
 * there for a while, go straight from there. The rest is copied into blocks that the disk takes; the last one is filled
 * up, and the file cut to its length.
 *
 * With `readBack` all that was written is read from the disk again and summed, stretch by stretch: reads and writes in
 * turns are faster than reads among writes.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { slices } from '../sources.js';
import { alignedBlocks, giveBlock, placeInSector, SECTOR, takeBlock } from './aligned.js';
import { codeOf } from './blob-disk.js';
import { sumRange } from './read-back.js';

/** Four of these, which make one block, are under way at once: in less time and memory than larger ones. */
const PIECE_BYTES = 1 << 20;
const AT_ONCE = 4;
/** Less than this is copied. */
const STRAIGHT_BYTES = 256 << 10;
/** So much is written before it is read back. */
const STRETCH_BYTES = 64 << 20;

/** Opens a new file for direct writes; undefined where that is not possible. */
export async function openDirect(path: string): Promise<FileHandle | undefined> {
  if (constants.O_DIRECT === undefined) return undefined;
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_DIRECT;
  let file: FileHandle | undefined;
  try {
    file = await open(path, flags, 0o666);
    // Some file systems let one open a file in this way, and refuse the first write.
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
  /** Whether a chunk stays as it is until the next but one is written. */
  readonly lasting?: boolean | undefined;
}

export class DirectWriter {
  readonly #file: FileHandle;
  readonly #lasting: boolean;
  readonly #block = takeBlock();
  readonly #free: Uint8Array[] = [...slices(this.#block, PIECE_BYTES)];
  readonly #busy = new Set<Promise<void>>();
  readonly #again: Uint8Array | undefined;
  /** The piece that is being filled. */
  #piece: Uint8Array | undefined;
  #filled = 0;
  /** Where it will be. */
  #start = 0;
  /** Up to here it was read back. */
  #readTo = 0;
  #crc = 0;
  #fault: { readonly error: unknown } | undefined;

  constructor(file: FileHandle, { readBack, lasting = false }: DirectWriterOptions) {
    this.#file = file;
    this.#lasting = lasting;
    this.#again = readBack ? takeBlock() : undefined;
  }

  /** One past the last byte taken in. */
  get position(): number {
    return this.#start + this.#filled;
  }

  /** The crc32c of everything as the disk gave it back, after `sync`; undefined unless that was asked for. */
  async readBack(): Promise<number | undefined> {
    return this.#again && this.#crc;
  }

  /** Takes a chunk. Resolves when there is room for another. */
  async write(chunk: Uint8Array): Promise<void> {
    const ofOthers = [...this.#busy];
    const [head, straight] = this.#split(chunk);
    await this.#copy(chunk.subarray(0, head));
    if (straight > 0 && this.#filled > 0) this.#sendPiece();
    for (const piece of slices(chunk.subarray(head, head + straight), PIECE_BYTES)) {
      while (this.#busy.size >= AT_ONCE) await Promise.race(this.#busy);
      this.#throwFault();
      this.#send(piece);
    }
    await this.#copy(chunk.subarray(head + straight));
    await Promise.all(ofOthers);
    this.#throwFault();
    if (this.#start - this.#readTo >= STRETCH_BYTES) await this.#readUpTo(this.#start);
  }

  /** Resolves when everything is on the disk, and was read back if that was asked for. It is of no more use then. */
  async sync(): Promise<void> {
    const size = this.position;
    if (this.#filled > 0) this.#sendPiece();
    await Promise.all(this.#busy);
    this.#throwFault();
    if (size % SECTOR !== 0) await this.#file.truncate(size);
    // What is read comes from the disk already: the flush is of its own memory, and of where the file lies.
    await Promise.all([this.#file.datasync(), this.#readUpTo(size)]);
    giveBlock(this.#block);
    if (this.#again) giveBlock(this.#again);
    this.#free.length = 0;
  }

  /** How much of a chunk is copied before the first byte that goes straight to the disk, and how many do. */
  #split(chunk: Uint8Array): readonly [number, number] {
    const place = this.#lasting ? placeInSector(chunk) : undefined;
    if (place === undefined || place !== this.position % SECTOR) return [0, 0];
    const head = (SECTOR - place) % SECTOR;
    const straight = Math.floor((chunk.byteLength - head) / SECTOR) * SECTOR;
    return straight >= STRAIGHT_BYTES ? [head, straight] : [0, 0];
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

  /** Begins to write whole sectors, of which so many bytes count. */
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
      // A disk that is all but full may take a part that is not a whole number of sectors; what follows then fails.
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
