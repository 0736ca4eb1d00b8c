/**
 * One data file of a checkpoint, as it will lie on disk, over tensors that are held in memory: nothing is copied but
 * tensors of a few kilobytes, which go out together. It can be streamed from any offset, again and again, and sums the
 * bytes as they first go by, in pieces that end with each tensor and each chunk; from those come both the sum of every
 * tensor, which TensorFlow wants, and the sum of every chunk, with which a range is verified when it is read.
 */
import { setImmediate } from 'node:timers/promises';
import { crc32c } from '../bytes/crc32c.js';
import { combineCrc32c } from '../bytes/crc32c-combine.js';
import { invalid } from '../errors/errors.js';
import { type BundleIndex, type BundleTensor, combine } from '../formats/tensor-bundle/bundle-index.js';
import { isWhole } from '../formats/tensor-bundle/slice.js';
import { stringsHead } from '../formats/tensor-bundle/string-layout.js';
import type { BlobSource } from '../store/store.js';
import { DTYPES, dtypeNumber } from '../tensor/dtype.js';
import type { Tensor } from '../tensor/tensor.js';
import { fullShapeOf, type SavedVariable, sliceOf } from './saved-variable.js';

export const CHUNK_BYTES = 4 << 20;
/** Pieces up to this size are gathered before they are passed on. */
const SMALL_BYTES = 64 << 10;
const GATHER_BYTES = 1 << 20;

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

interface Segment {
  readonly variable: SavedVariable;
  readonly offset: number;
  readonly bytes: Uint8Array;
  /** Where the sum of the tensor is not that of its bytes. */
  readonly ownCrc: number | undefined;
}

interface Piece {
  readonly start: number;
  readonly bytes: Uint8Array;
}

export class ShardImage {
  readonly size: number;
  readonly #segments: readonly Segment[];
  readonly #sums = new Map<number, number>();

  constructor(held: readonly HeldVariable[]) {
    let offset = 0;
    this.#segments = held.map(({ variable, tensor }) => {
      const { bytes, ownCrc } = bytesOf(variable, tensor);
      const segment = { variable, offset, bytes, ownCrc };
      offset += bytes.byteLength;
      return segment;
    });
    this.size = offset;
  }

  readonly source: BlobSource = (offset) => this.#stream(offset);

  async *#stream(from: number): AsyncGenerator<Uint8Array> {
    let gathered = Buffer.alloc(0);
    let used = 0;
    for (const { start, bytes } of this.#pieces()) {
      const end = start + bytes.byteLength;
      if (end <= from) continue;
      this.#sum(start, bytes);
      const wanted = bytes.subarray(Math.max(0, from - start));
      if (wanted.byteLength <= SMALL_BYTES) {
        if (used + wanted.byteLength > gathered.byteLength) {
          if (used > 0) yield gathered.subarray(0, used);
          gathered = Buffer.allocUnsafeSlow(GATHER_BYTES);
          used = 0;
        }
        gathered.set(wanted, used);
        used += wanted.byteLength;
        continue;
      }
      if (used > 0) {
        yield gathered.subarray(0, used);
        gathered = Buffer.alloc(0);
        used = 0;
      }
      yield wanted;
      await setImmediate();
    }
    if (used > 0) yield gathered.subarray(0, used);
  }

  /** The sums of all that was streamed; what never was is summed at once. */
  sums(): ShardSums {
    const chunks = new Uint32Array(Math.ceil(this.size / CHUNK_BYTES));
    const tensors = new Map<string, BundleTensor>();
    let whole = 0;
    const ofSegment = new Map<number, number>();
    for (const { start, bytes } of this.#pieces()) {
      const crc = this.#sum(start, bytes);
      const chunk = Math.floor(start / CHUNK_BYTES);
      chunks[chunk] = combineCrc32c(chunks[chunk]!, crc, bytes.byteLength);
      whole = combineCrc32c(whole, crc, bytes.byteLength);
      const segment = this.#segmentAt(start);
      ofSegment.set(segment, combineCrc32c(ofSegment.get(segment) ?? 0, crc, bytes.byteLength));
    }
    this.#segments.forEach(({ variable, offset, bytes, ownCrc }, i) => {
      const shape = fullShapeOf(variable);
      const slice = sliceOf(variable);
      const piece = {
        slice: slice && !isWhole(shape, slice) ? slice : undefined,
        shard: 0,
        offset,
        size: bytes.byteLength,
        crc32c: ownCrc ?? ofSegment.get(i) ?? 0,
      };
      const { key, dtype } = variable;
      const tensor = { name: key, dtype: dtypeNumber(dtype), shape, pieces: [piece] };
      tensors.set(key, combine(tensors.get(key), tensor));
    });
    return { index: { shards: 1, tensors }, chunks, crc32c: whole };
  }

  #sum(start: number, bytes: Uint8Array): number {
    const known = this.#sums.get(start);
    if (known !== undefined) return known;
    const crc = crc32c(bytes);
    this.#sums.set(start, crc);
    return crc;
  }

  /** The bytes in order, cut at the end of every tensor and of every chunk. */
  *#pieces(): Generator<Piece> {
    for (const { offset, bytes } of this.#segments) {
      for (let at = 0; at < bytes.byteLength; ) {
        const start = offset + at;
        const room = CHUNK_BYTES - (start % CHUNK_BYTES);
        const end = Math.min(bytes.byteLength, at + room);
        yield { start, bytes: bytes.subarray(at, end) };
        at = end;
      }
    }
  }

  #segmentAt(position: number): number {
    let [low, high] = [0, this.#segments.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#segments[middle]!.offset <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** How long the image of these will be, found without a look at their memory. */
export function imageSize(held: readonly HeldVariable[]): number {
  return held.reduce((sum, { variable, tensor }) => {
    check(variable, tensor);
    const { dtype } = variable;
    return (
      sum +
      (dtype === 'string' ? bytesOf(variable, tensor).bytes.byteLength : tensor.size * DTYPES[dtype].size)
    );
  }, 0);
}

function check({ key, dtype, shape }: SavedVariable, tensor: Tensor): void {
  const same = tensor.shape.length === shape.length && tensor.shape.every((size, i) => size === shape[i]);
  if (tensor.dtype !== dtype || !same) {
    throw invalid(
      `${key} is ${tensor.dtype} [${tensor.shape}] in memory, but ${dtype} [${shape}] in the graph`,
    );
  }
}

function bytesOf(variable: SavedVariable, tensor: Tensor): { bytes: Uint8Array; ownCrc: number | undefined } {
  check(variable, tensor);
  if (variable.dtype === 'string') {
    const values = tensor.bytes();
    const { head, crc32c: headCrc } = stringsHead(values.map((value) => value.byteLength));
    const ownCrc = values.reduce((crc, value) => crc32c(value, crc), headCrc);
    return { bytes: Buffer.concat([head, ...values]), ownCrc };
  }
  const data = tensor.data as unknown as NodeJS.TypedArray;
  return { bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), ownCrc: undefined };
}
