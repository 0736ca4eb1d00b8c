/**
 * Writes one data file of a bundle as a stream: the bytes of the tensors consecutively and unaligned, as TensorFlow
 * does. Large chunks are written without a copy, small ones are buffered; checksums are computed on the fly, in steps
 * that do not block the event loop.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { invalid } from '../../../base/errors/errors.js';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import { type BundleIndex, type BundleTensor, combineSlices } from './bundle-index.js';
import { dtypeName, elementBytes } from './dtypes.js';
import { boxOf, elementCount, isWhole, type TensorSlice } from './slice.js';
import { stringsHead } from './string-layout.js';

/** Receives bytes in order. The next chunk is passed only after the promise of the previous one resolves. */
export interface ByteSink {
  write(chunk: Uint8Array): Promise<void> | void;
}

export interface ShardTensor {
  readonly dtype: DataType;
  /** The shape of the complete tensor, also if only a slice is written. */
  readonly shape: readonly number[];
  /** The slice that is written; default: the complete tensor. */
  readonly slice?: TensorSlice;
}

export type ByteChunks = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export interface FinishedShard {
  readonly size: number;
  /** In hexadecimal, if requested. */
  readonly sha256: string | undefined;
  /** The index of this shard: one data file. */
  readonly index: BundleIndex;
}

/** Chunks up to this size are buffered; larger ones go directly to the sink. */
const GATHER_BYTES = 1 << 20;
const SMALL_BYTES = 64 << 10;
/** The maximum to checksum in one step: about a millisecond. */
const STEP_BYTES = 4 << 20;

export class BundleShardWriter {
  readonly #sink: ByteSink;
  readonly #hash: ReturnType<typeof createHash> | undefined;
  readonly #tensors = new Map<string, BundleTensor>();
  #gathered: Uint8Array | undefined;
  #gatheredBytes = 0;
  #size = 0;
  #state: 'open' | 'busy' | 'broken' | 'finished' = 'open';

  /** With `sha256` the SHA-256 of the file is computed; default: false. */
  constructor(sink: ByteSink, options: { readonly sha256?: boolean } = {}) {
    this.#sink = sink;
    this.#hash = options.sha256 ? createHash('sha256') : undefined;
  }

  /** Writes a tensor of any dtype but string. `data` may be a view of live memory: it is read once, in order. */
  async add(name: string, tensor: ShardTensor, data: ByteChunks): Promise<void> {
    const each = elementBytes(tensor.dtype);
    if (each === undefined)
      throw invalid(`${name}: tensors of ${dtypeName(tensor.dtype)} cannot be saved as bytes`);
    const expected = each * elementCount(boxOf(tensor.shape, tensor.slice).lengths);
    await this.#exclusively(name, async () => {
      const offset = this.#size;
      let crc = 0;
      for await (const chunk of data instanceof Uint8Array ? [data] : data)
        crc = await this.#write(chunk, crc);
      if (this.#size - offset !== expected) {
        throw invalid(
          `${name} (${dtypeName(tensor.dtype)}, [${tensor.shape}]) has ${expected} bytes; got ${this.#size - offset}`,
        );
      }
      this.#record(name, tensor, offset, crc);
    });
  }

  async addStrings(
    name: string,
    tensor: Omit<ShardTensor, 'dtype'>,
    values: readonly (Uint8Array | string)[],
  ): Promise<void> {
    const expected = elementCount(boxOf(tensor.shape, tensor.slice).lengths);
    if (values.length !== expected) {
      throw invalid(`${name} (string, [${tensor.shape}]) has ${expected} elements; got ${values.length}`);
    }
    await this.#exclusively(name, async () => {
      const offset = this.#size;
      const encoded = values.map((value) => (typeof value === 'string' ? Buffer.from(value) : value));
      const { head, crc32c: headCrc } = stringsHead(encoded.map((value) => value.length));
      await this.#write(head, 0);
      let crc = headCrc;
      for (const value of encoded) crc = await this.#write(value, crc);
      this.#record(name, { ...tensor, dtype: DataType.DT_STRING }, offset, crc);
    });
  }

  async finish(): Promise<FinishedShard> {
    await this.#exclusively(undefined, () => this.#flush());
    this.#state = 'finished';
    return {
      size: this.#size,
      sha256: this.#hash?.digest('hex'),
      index: { shards: 1, tensors: this.#tensors },
    };
  }

  /** One call at a time, and none after a failure: the file may contain a partial tensor. */
  async #exclusively(name: string | undefined, work: () => Promise<void>): Promise<void> {
    if (this.#state !== 'open') {
      const reason = this.#state === 'busy' ? 'an earlier call has not completed' : `it is ${this.#state}`;
      throw invalid(`the shard cannot be written to: ${reason}`, {
        hint: 'await each call; discard a writer that failed',
      });
    }
    if (name === '' || name?.startsWith('\0'))
      throw invalid('the name of a saved tensor must not be empty or start with a zero byte');
    this.#state = 'busy';
    try {
      await work();
      this.#state = 'open';
    } catch (error) {
      this.#state = 'broken';
      throw error;
    }
  }

  #record(name: string, tensor: ShardTensor, offset: number, crc: number): void {
    const { dtype, shape } = tensor;
    const slice = tensor.slice && !isWhole(shape, tensor.slice) ? tensor.slice : undefined;
    const piece = { slice, shard: 0, offset, size: this.#size - offset, crc32c: crc };
    this.#tensors.set(name, combineSlices(this.#tensors.get(name), { name, dtype, shape, pieces: [piece] }));
  }

  /** Writes bytes and returns their crc, continued from `crc`. Checksums the next step while the sink writes. */
  async #write(chunk: Uint8Array, crc: number): Promise<number> {
    if (chunk.length <= SMALL_BYTES) {
      await this.#gather(chunk);
      return this.#check(chunk, crc);
    }
    await this.#flush();
    let writing: Promise<void> | undefined;
    try {
      for (let at = 0; at < chunk.length; at += STEP_BYTES) {
        const step = chunk.subarray(at, at + STEP_BYTES);
        crc = this.#check(step, crc);
        await writing;
        writing = this.#send(step);
        await setImmediate();
      }
    } finally {
      await writing;
    }
    return crc;
  }

  #check(bytes: Uint8Array, crc: number): number {
    this.#hash?.update(bytes);
    this.#size += bytes.length;
    return crc32c(bytes, crc);
  }

  /** The sink's write as a promise whose failure surfaces only where it is awaited. */
  #send(bytes: Uint8Array): Promise<void> {
    const writing = (async () => this.#sink.write(bytes))();
    writing.catch(() => undefined);
    return writing;
  }

  async #gather(chunk: Uint8Array): Promise<void> {
    if (this.#gatheredBytes + chunk.length > GATHER_BYTES) await this.#flush();
    this.#gathered ??= Buffer.allocUnsafeSlow(GATHER_BYTES);
    this.#gathered.set(chunk, this.#gatheredBytes);
    this.#gatheredBytes += chunk.length;
  }

  async #flush(): Promise<void> {
    if (!this.#gathered || this.#gatheredBytes === 0) return;
    const chunk = this.#gathered.subarray(0, this.#gatheredBytes);
    this.#gatheredBytes = 0;
    await this.#send(chunk);
  }
}
