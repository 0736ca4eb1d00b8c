/**
 * The content of one data file of a checkpoint, over tensors in memory. Only small tensors are copied, to be written
 * together. It can be streamed repeatedly from any offset. The first stream computes checksums of pieces that end at
 * each tensor and each chunk; they are combined to the checksum of every tensor, which TensorFlow needs, and of every
 * chunk, which verifies ranges when they are read.
 *
 * A large tensor has the same alignment in the file as in memory, padded with zeros: direct I/O writes and reads it
 * without a copy.
 */
import { setImmediate } from 'node:timers/promises';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { combineCrc32c } from '../../../base/bytes/crc32c-combine.js';
import type { LentBytes } from '../../../base/bytes/lent-bytes.js';
import { invalid } from '../../../base/errors/errors.js';
import {
  type BundleIndex,
  type BundleTensor,
  combineSlices,
} from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { isWhole } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import { stringsHead } from '../../../tensorflow/formats/tensor-bundle/string-layout.js';
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { offsetInSector, SECTOR } from '../../store/disk/aligned.js';
import type { BlobSource } from '../../store/store.js';
import { fullShapeOf, type SavedVariable, sliceOf } from './saved-variable.js';

export const CHUNK_BYTES = 4 << 20;
/** Pieces up to this size are gathered into one chunk. */
const SMALL_BYTES = 64 << 10;
const GATHER_BYTES = 1 << 20;
/** Tensors from this size on are aligned as in memory. */
const LARGE_BYTES = 1 << 20;

export interface HeldVariable {
  readonly variable: SavedVariable;
  readonly tensor: Tensor;
}

export interface ShardSums {
  readonly index: BundleIndex;
  /** The crc32c of every CHUNK_BYTES of the file. */
  readonly chunks: Uint32Array;
  readonly crc32c: number;
}

interface Content {
  readonly size: number;
  readonly lend: (start: number, end: number) => LentBytes;
  /** The tensor's checksum, if it is not that of its bytes. */
  readonly ownCrc?: number;
}

/** A tensor, or zeros between two of them. */
interface Segment extends Content {
  readonly variable: SavedVariable | undefined;
  readonly offset: number;
}

interface Piece {
  /** Its offset in the file. */
  readonly start: number;
  readonly size: number;
  readonly segment: Segment;
  readonly lend: () => LentBytes;
}

export class ShardImage {
  readonly size: number;
  readonly #segments: readonly Segment[];
  readonly #sums = new Map<number, number>();

  constructor(held: readonly HeldVariable[]) {
    const segments: Segment[] = [];
    let offset = 0;
    const add = (variable: SavedVariable | undefined, content: Content) => {
      segments.push({ variable, offset, ...content });
      offset += content.size;
    };
    for (const { variable, tensor } of held) {
      const content = contentOf(variable, tensor);
      const gap = gapBefore(offset, content);
      if (gap > 0) add(undefined, inMemory(Buffer.alloc(gap)));
      add(variable, content);
    }
    this.#segments = segments;
    this.size = offset;
  }

  /** A yielded chunk is valid until the next but one is requested. */
  readonly source: BlobSource = (offset) => this.#stream(offset);

  async *#stream(from: number): AsyncGenerator<Uint8Array> {
    const room = Math.min(GATHER_BYTES, this.size);
    let [gathered, other] = [Buffer.allocUnsafeSlow(room), Buffer.allocUnsafeSlow(room)];
    let used = 0;
    const lent: (() => void)[] = [];
    try {
      for (const piece of this.#pieces()) {
        const { start, size } = piece;
        if (start + size <= from) continue;
        const isSmall = size <= SMALL_BYTES;
        if (used > 0 && (!isSmall || used + size > room)) {
          yield gathered.subarray(0, used);
          [gathered, other, used] = [other, gathered, 0];
        }
        if (lent.length === 2) lent.shift()!();
        const { bytes, giveBack } = piece.lend();
        lent.push(giveBack);
        this.#sum(start, bytes);
        const wanted = bytes.subarray(Math.max(0, from - start));
        if (isSmall) {
          gathered.set(wanted, used);
          used += wanted.byteLength;
          lent.pop()!();
        } else {
          yield wanted;
          await setImmediate();
        }
      }
      if (used > 0) yield gathered.subarray(0, used);
    } finally {
      for (const giveBack of lent) giveBack();
    }
  }

  /** The checksums. Pieces that were not streamed yet are summed now. */
  sums(): ShardSums {
    const chunks = new Uint32Array(Math.ceil(this.size / CHUNK_BYTES));
    const tensors = new Map<string, BundleTensor>();
    let whole = 0;
    const ofSegment = new Map<Segment, number>();
    for (const piece of this.#pieces()) {
      const { start, size, segment } = piece;
      const crc = this.#sumOf(piece);
      const chunk = Math.floor(start / CHUNK_BYTES);
      chunks[chunk] = combineCrc32c(chunks[chunk]!, crc, size);
      whole = combineCrc32c(whole, crc, size);
      ofSegment.set(segment, combineCrc32c(ofSegment.get(segment) ?? 0, crc, size));
    }
    for (const segment of this.#segments) {
      const { variable, offset, size, ownCrc } = segment;
      if (!variable) continue;
      const shape = fullShapeOf(variable);
      const slice = sliceOf(variable);
      const piece = {
        slice: slice && !isWhole(shape, slice) ? slice : undefined,
        shard: 0,
        offset,
        size,
        crc32c: ownCrc ?? ofSegment.get(segment) ?? 0,
      };
      const { key, dtype } = variable;
      const tensor = { name: key, dtype: dtypeNumber(dtype), shape, pieces: [piece] };
      tensors.set(key, combineSlices(tensors.get(key), tensor));
    }
    return { index: { shards: 1, tensors }, chunks, crc32c: whole };
  }

  #sumOf({ start, lend }: Piece): number {
    const known = this.#sums.get(start);
    if (known !== undefined) return known;
    const { bytes, giveBack } = lend();
    try {
      return this.#sum(start, bytes);
    } finally {
      giveBack();
    }
  }

  #sum(start: number, bytes: Uint8Array): number {
    const known = this.#sums.get(start);
    if (known !== undefined) return known;
    const crc = crc32c(bytes);
    this.#sums.set(start, crc);
    return crc;
  }

  /** The bytes in order, split at the end of every tensor and of every chunk. */
  *#pieces(): Generator<Piece> {
    for (const segment of this.#segments) {
      const { offset, size, lend } = segment;
      for (let at = 0; at < size; ) {
        const [start, from] = [offset + at, at];
        const room = CHUNK_BYTES - (start % CHUNK_BYTES);
        const end = Math.min(size, at + room);
        yield { start, size: end - at, segment, lend: () => lend(from, end) };
        at = end;
      }
    }
  }
}

/** How many zeros are needed before a tensor to give it the same alignment as in memory. */
function gapBefore(offset: number, { size, lend }: Content): number {
  if (size < LARGE_BYTES) return 0;
  const { bytes, giveBack } = lend(0, 1);
  try {
    const place = offsetInSector(bytes) ?? offset;
    return (((place - offset) % SECTOR) + SECTOR) % SECTOR;
  } finally {
    giveBack();
  }
}

function check({ key, dtype, shape }: SavedVariable, tensor: Tensor): void {
  const same = tensor.shape.length === shape.length && tensor.shape.every((size, i) => size === shape[i]);
  if (tensor.dtype !== dtype || !same) {
    throw invalid(
      `${key} is ${tensor.dtype} [${tensor.shape}] in memory, but ${dtype} [${shape}] in the graph`,
    );
  }
}

function contentOf(variable: SavedVariable, tensor: Tensor): Content {
  check(variable, tensor);
  if (variable.dtype === 'string') {
    const values = tensor.bytes();
    const { head, crc32c: headCrc } = stringsHead(values.map((value) => value.byteLength));
    const ownCrc = values.reduce((crc, value) => crc32c(value, crc), headCrc);
    return { ...inMemory(Buffer.concat([head, ...values])), ownCrc };
  }
  return { size: tensor.byteLength, lend: (start, end) => tensor.lendBytes(start, end) };
}

function inMemory(bytes: Uint8Array): Content {
  const lend = (start: number, end: number) => ({ bytes: bytes.subarray(start, end), giveBack: () => {} });
  return { size: bytes.byteLength, lend };
}
