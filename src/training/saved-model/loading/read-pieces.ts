/**
 * Reads pieces of data files into TensorFlow's memory and verifies their checksums. Files that are not in the page cache
 * are read past it. Files are read in windows, in order, several at a time. A window within one piece is read into its
 * target; past the page cache, only if its alignment in memory matches that in the file, as in files that Shoal writes.
 * Other windows go through aligned blocks.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  BLOCK_BYTES,
  giveBlock,
  isAligned,
  SECTOR,
  takeBlock,
} from '../../../distributed/store/disk/aligned.js';
import { fillFrom, type PositionalReads } from '../../../distributed/store/disk/read-back.js';
import { cachedPart } from '../../../tensorflow/native/memory/page-cache.js';
import type { LowPriorityReader } from '../../../tensorflow/native/threads/low-priority-reader.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { RestoredPiece } from './restore-feeds.js';

/** The size and the alignment of windows in a file. */
const WINDOW_BYTES = BLOCK_BYTES;
const AT_ONCE = 6;

/** A range of a piece, by its positions in the file. */
interface Part {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}

interface Window {
  readonly shard: number;
  readonly number: number;
  readonly parts: Part[];
}

/** The bytes of a window from `start` on; valid until `release`. */
interface Filled {
  readonly start: number;
  readonly bytes: Uint8Array;
  /** Whether the bytes are in the memory of their tensor. */
  readonly isPlaced: boolean;
  readonly release: () => void;
}

export interface DataFile {
  readonly file: FileHandle;
  /** Reads of the file: on threads of the pool, or on one of low priority. */
  readonly reads: PositionalReads;
  /** Whether reads bypass the page cache. */
  readonly isDirect: boolean;
}

/**
 * Opens a file for reads past the page cache, unless more than `maxCached` of it, from 0 to 1, is in the page cache, or
 * the system or the file system does not support such reads.
 */
export async function openData(
  path: string,
  maxCached: number,
  reader?: LowPriorityReader,
): Promise<DataFile> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const isCached = (cachedPart(file.fd, size) ?? 0) > maxCached;
    const direct = isCached ? undefined : await openDirect(path);
    if (!direct) return { file, reads: readsOf(file, reader), isDirect: false };
    await file.close();
    return { file: direct, reads: readsOf(direct, reader), isDirect: true };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function readsOf(file: FileHandle, reader: LowPriorityReader | undefined): PositionalReads {
  if (!reader) return file;
  return {
    async read(buffer, offset, length, position) {
      const bytes = buffer.subarray(offset, offset + length);
      const slow = reader.read(file.fd, bytes, position);
      return slow ? { bytesRead: await slow } : file.read(buffer, offset, length, position);
    },
  };
}

async function openDirect(path: string): Promise<FileHandle | undefined> {
  if (constants.O_DIRECT === undefined) return undefined;
  return open(path, constants.O_RDONLY | constants.O_DIRECT).catch(() => undefined);
}

/** The values of the pieces, in order; the caller disposes them. `files` has an open file for each shard. */
export async function readPieces(
  files: readonly DataFile[],
  pieces: readonly RestoredPiece[],
  signal?: AbortSignal,
): Promise<Tensor[]> {
  const tensors: Tensor[] = [];
  try {
    await readInto(tensors, files, pieces, signal);
    return pieces.map((_, index) => tensors[index]!);
  } catch (error) {
    for (const tensor of tensors) tensor?.dispose();
    throw error;
  }
}

async function readInto(
  tensors: Tensor[],
  files: readonly DataFile[],
  pieces: readonly RestoredPiece[],
  signal?: AbortSignal,
): Promise<void> {
  const tensorOf = (index: number): Tensor => {
    const { shape, dtype } = pieces[index]!;
    tensors[index] ??= Tensor.allocate(shape, dtype, { ownerDisposes: true });
    return tensors[index];
  };
  const sums = pieces.map(() => 0);
  const inOrder = filesOrder(pieces);
  const following = new Map(inOrder.map((index, i) => [index, inOrder[i + 1]]));
  const windows = windowsOf(pieces, inOrder);
  const underWay: { readonly window: Window; readonly filling: Promise<Filled> }[] = [];
  const more = () => {
    while (underWay.length < AT_ONCE) {
      const { value: window, done } = windows.next();
      if (done) return;
      const filling = fill(files[window.shard]!, window, pieces, tensorOf);
      // Its memory is populated while the current one is read.
      const next = following.get(window.parts.at(-1)!.index);
      if (next !== undefined) tensorOf(next);
      // Awaited below, in order.
      filling.catch(() => {});
      underWay.push({ window, filling });
    }
  };
  try {
    for (more(); underWay.length > 0; more()) {
      throwIfAborted('reading variables', signal);
      const { window, filling } = underWay[0]!;
      const { start, bytes, isPlaced, release } = await filling;
      underWay.shift();
      for (const part of window.parts) {
        const range = bytes.subarray(part.start - start, part.end - start);
        if (!isPlaced) tensorOf(part.index).setBytes(range, part.start - pieces[part.index]!.piece.offset);
        sums[part.index] = crc32c(range, sums[part.index]);
      }
      release();
    }
  } finally {
    // The caller may then close the files.
    for (const { filling } of underWay)
      await filling.then(
        ({ release }) => release(),
        () => {},
      );
  }
  pieces.forEach(({ output, piece }, index) => {
    // Pieces without bytes have no window.
    tensorOf(index);
    if (sums[index] !== piece.crc32c)
      throw new ShoalError('SHOAL_CORRUPT', `The value of ${output} does not match its checksum`);
  });
}

/** The indices of the pieces in the order of the files. */
function filesOrder(pieces: readonly RestoredPiece[]): number[] {
  return pieces
    .map(({ piece }, index) => ({ ...piece, index }))
    .sort((a, b) => a.shard - b.shard || a.offset - b.offset)
    .map(({ index }) => index);
}

/** The windows that contain the pieces, in this order. */
function* windowsOf(pieces: readonly RestoredPiece[], inOrder: readonly number[]): Generator<Window, void> {
  let window: Window | undefined;
  for (const index of inOrder) {
    const { shard, offset, size } = pieces[index]!.piece;
    for (let start = offset; start < offset + size; ) {
      const number = Math.floor(start / WINDOW_BYTES);
      const end = Math.min(offset + size, (number + 1) * WINDOW_BYTES);
      if (window?.shard !== shard || window.number !== number) {
        if (window) yield window;
        window = { shard, number, parts: [] };
      }
      window.parts.push({ index, start, end });
      start = end;
    }
  }
  if (window) yield window;
}

async function fill(
  { reads, isDirect }: DataFile,
  { parts }: Window,
  pieces: readonly RestoredPiece[],
  tensorOf: (index: number) => Tensor,
): Promise<Filled> {
  const [first] = parts as [Part];
  const end = parts.reduce((most, part) => Math.max(most, part.end), 0);
  const { offset } = pieces[first.index]!.piece;
  const lent =
    parts.length === 1
      ? tensorOf(first.index).lendBytes(first.start - offset, first.end - offset)
      : undefined;
  const isPlaced = lent !== undefined && (!isDirect || isAligned(lent.bytes, first.start));
  if (!isPlaced) lent?.giveBack();
  const start = isPlaced ? first.start : first.start - (first.start % SECTOR);
  const bytes = isPlaced ? lent.bytes : takeBlock();
  const release = isPlaced ? lent.giveBack : () => giveBlock(bytes);
  try {
    await fillFrom(reads, start, bytes, end - start);
    return { start, bytes, isPlaced, release };
  } catch (error) {
    release();
    throw error;
  }
}
