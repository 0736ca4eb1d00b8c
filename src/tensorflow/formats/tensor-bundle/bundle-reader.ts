/**
 * Reads tensors or slices of them from a bundle, from any RangeReader. A requested slice may span several saved slices.
 * Bytes are read in bounded chunks, the next one while the last is checked, directly into the target where they are
 * contiguous there.
 */
import { throwIfAborted } from '../../../base/async/deadline.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import type { LentBytes } from '../../../base/bytes/lent-bytes.js';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import type { RangeReader } from '../range-reader.js';
import { type BundleIndex, type BundlePiece, type BundleTensor, tensorOf } from './bundle-index.js';
import { dtypeName, elementBytes } from './dtypes.js';
import { readIndexFile } from './index-file.js';
import { dataFile, indexFile } from './naming.js';
import { type Run, sharedRuns } from './regions.js';
import { type Box, boxOf, elementCount, type TensorSlice } from './slice.js';
import { decodeStrings } from './string-layout.js';

const CHUNK_BYTES = 8 << 20;
/** Without verification, gaps up to this size between requested runs are read rather than skipped. */
const GAP_BYTES = 64 << 10;
const MAX_INDEX_BYTES = 1 << 30;

/** A target for bytes: an array, or native memory without a permanent view. */
export interface ByteTarget {
  readonly length: number;
  set(bytes: Uint8Array, offset: number): void;
  /** Lends the memory of [start, end). */
  lend?(start: number, end: number): LentBytes;
}

export interface BundleReadOptions<T extends ByteTarget = ByteTarget> {
  /** The slice to read. Default: the complete tensor. */
  readonly slice?: TensorSlice;
  /** The target, of exactly the right size. Default: a new array. */
  readonly into?: T;
  /**
   * Checks the crc32c of every piece that is read, which requires reading the complete piece. Default: true. With false
   * only the requested ranges are read, for callers that verify in another way.
   */
  readonly verify?: boolean;
  /** Cancels the read; default: none. */
  readonly signal?: AbortSignal;
}

/** A range of a piece's bytes, to be read in order, and the requested runs in it, in bytes. */
interface Span {
  readonly start: number;
  readonly end: number;
  readonly runs: Iterator<Run>;
  /** Set if there is only one run. */
  readonly only?: Run;
}

export class BundleReader {
  readonly prefix: string;
  readonly index: BundleIndex;
  readonly #files: RangeReader;

  private constructor(files: RangeReader, prefix: string, index: BundleIndex) {
    this.#files = files;
    this.prefix = prefix;
    this.index = index;
  }

  static async open(files: RangeReader, prefix: string): Promise<BundleReader> {
    const name = indexFile(prefix);
    const size = await files.size(name);
    if (size > MAX_INDEX_BYTES)
      throw new ShoalError('SHOAL_CORRUPT', `${name}: ${size} bytes exceed the maximum size of an index`);
    return new BundleReader(files, prefix, readIndexFile(await files.read(name, 0, size), name));
  }

  tensor(name: string): BundleTensor {
    return tensorOf(this.index, name, this.prefix);
  }

  /** The bytes of a tensor of any dtype but string, row by row as TensorFlow holds them. */
  async read<T extends ByteTarget = Uint8Array>(
    name: string,
    options: BundleReadOptions<T> = {},
  ): Promise<T> {
    const tensor = this.tensor(name);
    const each = elementBytes(tensor.dtype);
    if (each === undefined) {
      throw invalid(`${name} is a tensor of ${dtypeName(tensor.dtype)}, whose elements have no fixed size`, {
        hint: tensor.dtype === DataType.DT_STRING ? 'read it with readStrings' : undefined,
      });
    }
    const wanted = boxOf(tensor.shape, options.slice);
    const total = elementCount(wanted.lengths) * each;
    if (options.into && options.into.length !== total) {
      throw invalid(`${name} has ${total} bytes, but the target has ${options.into.length}`);
    }
    const pieces = touchedPieces(tensor, wanted);
    const covered = pieces.reduce((sum, { shared }) => sum + shared, 0);
    if (covered * each !== total) throw this.#notWhole(tensor);
    for (const { piece } of pieces) await this.#checkBounds(name, piece);
    const target = options.into ?? (Buffer.allocUnsafeSlow(total) as ByteTarget as T);
    for (const { piece, box } of pieces) {
      await this.#readPiece(tensor, piece, scaledRuns(sharedRuns(box, wanted), each), target, options);
    }
    return target;
  }

  /** The elements of a tensor of strings, row by row. */
  async readStrings(
    name: string,
    options: Omit<BundleReadOptions, 'into' | 'verify'> = {},
  ): Promise<Uint8Array[]> {
    const tensor = this.tensor(name);
    if (tensor.dtype !== DataType.DT_STRING) {
      throw invalid(`${name} is a tensor of ${dtypeName(tensor.dtype)}, not of strings`, {
        hint: 'read it with read',
      });
    }
    const wanted = boxOf(tensor.shape, options.slice);
    const pieces = touchedPieces(tensor, wanted);
    const count = elementCount(wanted.lengths);
    if (pieces.reduce((sum, { shared }) => sum + shared, 0) !== count) throw this.#notWhole(tensor);
    const result: Uint8Array[] = [];
    for (const { piece, box } of pieces) {
      throwIfAborted(`reading ${tensor.name}`, options.signal);
      const values = await this.#readStringPiece(tensor, piece);
      for (const run of sharedRuns(box, wanted)) {
        for (let i = 0; i < run.count; i++) result[run.to + i] = values[run.from + i]!;
      }
    }
    return result;
  }

  /** The stored bytes of a piece in chunks, for copying. Fails after the last chunk if they are corrupt. */
  async *pieceBytes(tensor: BundleTensor, piece: BundlePiece): AsyncGenerator<Uint8Array> {
    await this.#checkBounds(tensor.name, piece);
    const file = this.#file(piece);
    if (elementBytes(tensor.dtype) === undefined) {
      const bytes = await this.#files.read(file, piece.offset, piece.size);
      if (tensor.dtype === DataType.DT_STRING) this.#checkStrings(tensor, piece, bytes);
      yield bytes;
      return;
    }
    let crc = 0;
    for (let at = 0; at < piece.size; ) {
      const bytes = await this.#files.read(file, piece.offset + at, Math.min(CHUNK_BYTES, piece.size - at));
      crc = crc32c(bytes, crc);
      at += bytes.length;
      yield bytes;
    }
    if (crc !== piece.crc32c) throw this.#corrupt(file, `${tensor.name} does not match its checksum`);
  }

  /** Verifies the checksums of a tensor, in bounded memory (strings: one piece at a time). */
  async verify(name: string, options: Pick<BundleReadOptions, 'signal'> = {}): Promise<void> {
    const tensor = this.tensor(name);
    for (const piece of tensor.pieces) {
      if (tensor.dtype === DataType.DT_STRING) {
        await this.#readStringPiece(tensor, piece);
      } else {
        await this.#checkBounds(name, piece);
        await this.#readPiece(tensor, piece, [].values(), new Uint8Array(0), { ...options, verify: true });
      }
    }
  }

  #file(piece: BundlePiece): string {
    return dataFile(this.prefix, piece.shard, this.index.shards);
  }

  #corrupt(file: string, what: string): ShoalError {
    return new ShoalError('SHOAL_CORRUPT', `${file}: ${what}`, {
      hint: 'the checkpoint is corrupt; use another copy of it or an older one',
    });
  }

  #notWhole(tensor: BundleTensor): ShoalError {
    return this.#corrupt(
      indexFile(this.prefix),
      `the saved slices of ${tensor.name} do not cover the requested slice`,
    );
  }

  /** Checks, before allocating memory for a piece, that its file contains it. */
  async #checkBounds(name: string, piece: BundlePiece): Promise<void> {
    const file = this.#file(piece);
    const size = await this.#files.size(file);
    if (piece.offset + piece.size > size) {
      throw this.#corrupt(file, `${name} ends at byte ${piece.offset + piece.size}, the file at ${size}`);
    }
  }

  async #readStringPiece(tensor: BundleTensor, piece: BundlePiece): Promise<Uint8Array[]> {
    await this.#checkBounds(tensor.name, piece);
    const bytes = await this.#files.read(this.#file(piece), piece.offset, piece.size);
    return this.#checkStrings(tensor, piece, bytes);
  }

  #checkStrings(tensor: BundleTensor, piece: BundlePiece, bytes: Uint8Array): Uint8Array[] {
    const file = this.#file(piece);
    const count = elementCount(boxOf(tensor.shape, piece.slice).lengths);
    const { values, crc32c: crc } = decodeStrings(bytes, count, `${file} (${tensor.name})`);
    if (piece.size > 0 && crc !== piece.crc32c)
      throw this.#corrupt(file, `${tensor.name} does not match its checksum`);
    return values;
  }

  /** Reads the runs of a piece; they are in bytes, ascending in `from`. */
  async #readPiece(
    tensor: BundleTensor,
    piece: BundlePiece,
    runs: Iterator<Run>,
    target: ByteTarget,
    options: BundleReadOptions,
  ): Promise<void> {
    const verify = options.verify ?? true;
    const spans = verify ? [{ start: 0, end: piece.size, runs }] : spansOf(runs);
    const file = this.#file(piece);
    const scratch = new Scratch();
    let crc = 0;
    for (const span of spans) {
      const scatter = new Scatter(span.runs, target);
      if (!verify && this.#files.pour) {
        const take = (bytes: Uint8Array, at: number) => {
          throwIfAborted(`reading ${tensor.name}`, options.signal);
          scatter.copy(span.start + at, bytes);
        };
        const place = placesOf(span, target);
        await this.#files.pour(file, piece.offset + span.start, span.end - span.start, take, place);
        continue;
      }
      let next = this.#readChunk(file, piece, span, span.start, scatter, scratch);
      while (next) {
        throwIfAborted(`reading ${tensor.name}`, options.signal);
        const { at, bytes, placed } = await next.done;
        // Before the next read is placed: its position depends on the progress of the runs.
        if (!placed) scatter.copy(at, bytes);
        const following = at + bytes.length;
        next =
          following < span.end ? this.#readChunk(file, piece, span, following, scatter, scratch) : undefined;
        if (verify) crc = crc32c(bytes, crc);
      }
    }
    if (verify && crc !== piece.crc32c)
      throw this.#corrupt(file, `${tensor.name} does not match its checksum`);
  }

  /** Starts the read of the chunk at `at`. Wrapped so that a failure surfaces only where it is awaited. */
  #readChunk(file: string, piece: BundlePiece, span: Span, at: number, scatter: Scatter, scratch: Scratch) {
    if (at >= span.end) return undefined;
    const length = Math.min(CHUNK_BYTES, span.end - at);
    const place = scatter.direct(at, length);
    const into = place ?? scratch.next(length);
    const done = this.#files.read(file, piece.offset + at, length, into).then((bytes) => {
      if (bytes.length !== length) {
        throw this.#corrupt(file, `read ${bytes.length} bytes instead of ${length}`);
      }
      if (place && bytes !== place) place.set(bytes);
      return { at, bytes, placed: place !== undefined };
    });
    done.catch(() => undefined);
    return { done };
  }
}

/** Buffers for chunks that are not read into the target: one is filled while the other is processed. */
class Scratch {
  readonly #buffers: Uint8Array[] = [];
  #turn = 0;

  next(length: number): Uint8Array {
    this.#turn ^= 1;
    const present = this.#buffers[this.#turn];
    if (present && present.length >= length) return present.subarray(0, length);
    const buffer = Buffer.allocUnsafeSlow(length);
    this.#buffers[this.#turn] = buffer;
    return buffer;
  }
}

/** Copies consecutive chunks of a piece to the targets of the runs. */
class Scatter {
  readonly #runs: Iterator<Run>;
  readonly #target: ByteTarget;
  #run: Run | undefined;

  constructor(runs: Iterator<Run>, target: ByteTarget) {
    this.#runs = runs;
    this.#target = target;
    this.#run = this.#next();
  }

  #next(): Run | undefined {
    const result = this.#runs.next();
    return result.done ? undefined : result.value;
  }

  /** The target of a chunk within one run, so that it can be read directly into it. */
  direct(at: number, length: number): Uint8Array | undefined {
    const [run, target] = [this.#run, this.#target];
    if (!(target instanceof Uint8Array)) return undefined;
    if (!run || at < run.from || at + length > run.from + run.count) return undefined;
    const to = run.to + at - run.from;
    if (at + length === run.from + run.count) this.#run = this.#next();
    return target.subarray(to, to + length);
  }

  copy(at: number, bytes: Uint8Array): void {
    const end = at + bytes.length;
    while (this.#run && this.#run.from < end) {
      const run = this.#run;
      const from = Math.max(run.from, at);
      const to = Math.min(run.from + run.count, end);
      this.#target.set(bytes.subarray(from - at, to - at), run.to + from - run.from);
      if (to < run.from + run.count) return;
      this.#run = this.#next();
    }
  }
}

/** The targets of a span's bytes, if they are laid out as in the file. */
function placesOf(
  { only }: Span,
  target: ByteTarget,
): ((at: number, length: number) => LentBytes) | undefined {
  if (!only || !target.lend) return undefined;
  return (at, length) => target.lend!(only.to + at, only.to + at + length);
}

function touchedPieces(
  tensor: BundleTensor,
  wanted: Box,
): { piece: BundlePiece; box: Box; shared: number }[] {
  return tensor.pieces
    .map((piece) => {
      const box = boxOf(tensor.shape, piece.slice);
      return { piece, box, shared: sharedCount(box, wanted) };
    })
    .filter(({ shared }) => shared > 0);
}

function sharedCount(a: Box, b: Box): number {
  return a.lengths.reduce((product, length, d) => {
    const start = Math.max(a.starts[d]!, b.starts[d]!);
    const end = Math.min(a.starts[d]! + length, b.starts[d]! + b.lengths[d]!);
    return product * Math.max(0, end - start);
  }, 1);
}

function* scaledRuns(runs: Iterable<Run>, each: number): Generator<Run> {
  for (const run of runs) yield { from: run.from * each, to: run.to * each, count: run.count * each };
}

/** Groups runs into spans of one read each. */
function* spansOf(runs: Iterator<Run>): Generator<Span> {
  let gathered: Run[] = [];
  let end = 0;
  for (let result = runs.next(); !result.done; result = runs.next()) {
    const run = result.value;
    const first = gathered[0];
    if (first && (run.from - end > GAP_BYTES || end - first.from > CHUNK_BYTES)) {
      yield spanOf(gathered, end);
      gathered = [];
    }
    gathered.push(run);
    end = run.from + run.count;
  }
  if (gathered.length > 0) yield spanOf(gathered, end);
}

function spanOf(runs: readonly Run[], end: number): Span {
  const [first] = runs as [Run];
  return { start: first.from, end, runs: runs.values(), only: runs.length === 1 ? first : undefined };
}
