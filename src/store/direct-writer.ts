/**
 * Writes a stream to a file past the page cache (O_DIRECT): the processor copies every byte once, into a block that the
 * disk takes as it is, and no memory is claimed for the cache. With `readBack` every block is read from the disk again and
 * compared before it is given up.
 *
 * The disk takes whole sectors, from memory that begins at a page. The last block is filled up, and the file cut to its
 * length.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { ShoalError } from '../errors/errors.js';
import { haveSameBytes } from '../native/buffer.js';
import { alignedBlocks, giveBlock, SECTOR, takeBlock } from './aligned.js';
import { codeOf } from './blob-disk.js';
import { slices } from './sources.js';

/** Four of these, which make one block, are under way at once: in less time and memory than larger ones. */
const PIECE_BYTES = 1 << 20;

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

/** One of the pieces that are under way at once: one is filled while others are written and read. */
interface Lane {
  readonly block: Uint8Array;
  /** What the disk gives back. */
  readonly again: Uint8Array | undefined;
}

export class DirectWriter {
  readonly #file: FileHandle;
  readonly #memory: readonly Uint8Array[];
  readonly #free: Lane[];
  readonly #busy = new Set<Promise<void>>();
  #lane: Lane | undefined;
  #filled = 0;
  /** Where the block that is being filled will be. */
  #start = 0;
  #fault: { readonly error: unknown } | undefined;

  constructor(file: FileHandle, { readBack }: { readonly readBack: boolean }) {
    this.#file = file;
    const [block, again] = [takeBlock(), readBack ? takeBlock() : undefined];
    this.#memory = again ? [block, again] : [block];
    const agains = again && [...slices(again, PIECE_BYTES)];
    this.#free = [...slices(block, PIECE_BYTES)].map((piece, i) => ({ block: piece, again: agains?.[i] }));
  }

  /** One past the last byte taken in. */
  get position(): number {
    return this.#start + this.#filled;
  }

  /** Takes a copy of a chunk. Resolves when there is room for another. */
  async write(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.byteLength; ) {
      this.#lane ??= await this.#next();
      const { block } = this.#lane;
      const size = Math.min(chunk.byteLength - at, PIECE_BYTES - this.#filled);
      block.set(chunk.subarray(at, at + size), this.#filled);
      at += size;
      this.#filled += size;
      if (this.#filled === PIECE_BYTES) this.#send();
    }
    this.#throwFault();
  }

  /** Resolves when everything is on the disk, and was read back if that was asked for. It is of no more use then. */
  async sync(): Promise<void> {
    const size = this.position;
    if (this.#filled > 0) this.#send();
    await Promise.all(this.#busy);
    this.#throwFault();
    if (size % SECTOR !== 0) await this.#file.truncate(size);
    await this.#file.datasync();
    for (const block of this.#memory) giveBlock(block);
    this.#free.length = 0;
  }

  async #next(): Promise<Lane> {
    while (this.#free.length === 0) await Promise.race(this.#busy);
    this.#throwFault();
    return this.#free.pop()!;
  }

  #send(): void {
    const lane = this.#lane!;
    const [start, size] = [this.#start, Math.ceil(this.#filled / SECTOR) * SECTOR];
    lane.block.fill(0, this.#filled, size);
    this.#start += this.#filled;
    this.#filled = 0;
    this.#lane = undefined;
    const work = this.#put(lane, start, size)
      .catch((error: unknown) => {
        this.#fault ??= { error };
      })
      .finally(() => {
        this.#busy.delete(work);
        this.#free.push(lane);
      });
    this.#busy.add(work);
  }

  async #put({ block, again }: Lane, start: number, size: number): Promise<void> {
    for (let at = 0; at < size; ) {
      const { bytesWritten } = await this.#file.write(block, at, size - at, start + at);
      // A disk that is all but full may take a part that is not a whole number of sectors; what follows then fails.
      at += bytesWritten - (bytesWritten % SECTOR);
      if (bytesWritten < SECTOR) throw noSpaceLeft();
    }
    if (!again) return;
    for (let at = 0; at < size; ) {
      const { bytesRead } = await this.#file.read(again, at, size - at, start + at);
      if (bytesRead === 0) throw changed();
      at += bytesRead;
    }
    if (!(await haveSameBytes(block.subarray(0, size), again.subarray(0, size)))) throw changed();
  }

  #throwFault(): void {
    if (this.#fault !== undefined) throw this.#fault.error;
  }
}

const changed = () =>
  new ShoalError('SHOAL_CORRUPT', 'the disk gives back other bytes than were written to it', {
    hint: 'The disk or its controller may be failing: look at the log of the kernel.',
  });

const noSpaceLeft = () => Object.assign(new Error('no space left on the disk'), { code: 'ENOSPC' });
