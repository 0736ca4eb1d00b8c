/**
 * The worker's side of data shards: a dataset over the leases from the chief's ledger, read by TensorFlow. JavaScript
 * sees leases and counts, never records.
 *
 * Every batch has a position: the lease and the range of its records. A step fetches the position along with its
 * update; `completed` then reports what it consumed. Records read ahead are not reported, and are leased again if this
 * worker dies.
 *
 * A step that calls `admit` first never waits for a lease inside TensorFlow, where it would delay a checkpoint.
 *
 * A batch never spans two leases: it would wait for a lease that the ledger cannot grant before the batch is consumed.
 * The last batch of a lease may therefore be smaller.
 */
import { stat } from 'node:fs/promises';
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { stack } from '../../../tensorflow/ops/arrays.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset, int64 } from '../dataset/dataset.js';
import { FedQueue, InputLost } from '../dataset/fed-queue.js';
import { INPUT_FEEDERS } from '../dataset/generator.js';
import type { DatasetIterator, IteratorOptions } from '../dataset/iterator.js';
import { type Features, type ParsedFeatures, parseExample } from '../dataset/parse-example.js';
import type { Parallel, ParallelOptions } from '../dataset/recipe.js';
import type { ByteRange } from '../dataset/record-ranges.js';
import { fromTensors, zip } from '../dataset/sources.js';
import { type DatasetElement, type Spec, typesOf } from '../dataset/structure.js';
import { noteRecordFiles } from '../files/corrupt-records.js';
import { recordsOfRange, type TFRecordOptions } from '../files/files.js';
import { type BatchPermit, BatchPermits } from './batch-permits.js';
import type { Lease } from './ledger.js';
import type { LeaseSource } from './ledger-host.js';

interface LeaseElement extends ByteRange {
  readonly lease: Output<'int64'>;
  readonly term: Output<'int64'>;
  readonly from: Output<'int64'>;
  readonly to: Output<'int64'>;
  readonly seed: Output<'int64'>;
}

const scalar = (dtype: 'int64' | 'string'): Spec => ({ kind: 'tensor', dtype, shape: [] });
const LEASE: Spec = {
  kind: 'record',
  entries: [
    ['lease', scalar('int64')],
    ['term', scalar('int64')],
    ['file', scalar('string')],
    ['offset', scalar('int64')],
    ['records', scalar('int64')],
    ['bytes', scalar('int64')],
    ['behind', scalar('int64')],
    ['from', scalar('int64')],
    ['to', scalar('int64')],
    ['seed', scalar('int64')],
  ],
};

/** A batch with the records [from, upTo) of a lease. */
interface Placed<T> {
  readonly lease: Output<'int64'>;
  readonly term: Output<'int64'>;
  readonly from: Output<'int64'>;
  readonly upTo: Output<'int64'>;
  readonly value: T;
}

export interface ShardOptions extends Pick<TFRecordOptions, 'compression' | 'bufferSize'> {
  /** The size of the shuffle buffer within each shard; default: file order. */
  readonly shuffle?: number;
  /** How many leases are requested ahead, to hide the latency of the ledger; default: 2. */
  readonly leasesAhead?: number;
  /** The name of the queue's ops, and of the shards in error messages; default: `shards`. */
  readonly name?: string;
}

/** How batches are made from ranges. */
export interface BatchMaking<T, U> {
  readonly size: number;
  /** All records of a range, in a fixed order. */
  readonly read: (range: ByteRange) => Dataset<T>;
  /** Batches `size` records at a time; the last batch may be smaller. */
  readonly batch: (records: Dataset<T>) => Dataset<U>;
}

/** The stop request of the session. */
interface Stop {
  shouldStop(): boolean;
  readonly signal?: AbortSignal;
}

/** Observes the leases of an input. */
export interface LeaseObserver {
  /** How many leases the input holds, after each change. */
  held(count: number): void;
  /** A completed step has consumed records, perhaps the last ones of their lease. */
  consumed(records: number, isComplete: boolean): void;
}

export class ShardInput {
  readonly name: string;
  readonly #queue: FedQueue<LeaseElement>;
  readonly #options: ShardOptions;
  /** The unconsumed leases, with the number of their remaining records. */
  readonly #held = new Map<number, number>();
  readonly #files = new Set<string>();
  #permits = new BatchPermits();
  #usesPermits = false;
  #batchSize = 1;
  /** Whether this reads TFRecord files, whose corrupt records can be explained. */
  #isRecordFiles = false;
  #from: { readonly source: LeaseSource; readonly worker: string } | undefined;
  #observer: LeaseObserver | undefined;

  constructor(options: ShardOptions = {}) {
    this.name = options.name ?? 'shards';
    this.#options = options;
    const capacity = options.leasesAhead ?? 2;
    // Slow polling suffices: the worker still has other leases to read.
    this.#queue = new FedQueue<LeaseElement>(LEASE, { capacity, name: this.name, longestPauseMs: 80 });
    this.#queue.dataset.variant.graph.addToCollection(INPUT_FEEDERS, this);
  }

  /** Sets the source of leases; call it before the session starts. */
  connect(source: LeaseSource, worker: string, observer?: LeaseObserver): void {
    this.#from = { source, worker };
    this.#observer = observer;
  }

  /** Batches of serialized records. */
  batch(size: number): ShardBatches<Output<'string'>> {
    this.#isRecordFiles = true;
    return this.batches({
      size,
      read: (range) => recordsOfRange(range, this.#options),
      batch: (records) => records.batch(size),
    });
  }

  /** Batches of records of any format. */
  batches<T, U = T>(making: BatchMaking<T, U>): ShardBatches<U> {
    this.#batchSize = making.size;
    return new ShardBatches(
      this.#queue.dataset.flatMap((lease) => batchesOf(lease, making, this.#options.shuffle)),
    );
  }

  /**
   * Requests leases until the end of the input, as a feeder of the graph. A new session restarts the input: its
   * iterators must be initialized first.
   */
  createThreads(session: Runner, stop: Stop): Promise<void>[] {
    if (!this.#from) {
      throw invalid(`The shards '${this.name}' are not connected to a ledger`, {
        hint: 'Call input.connect(source, worker) before the session starts.',
      });
    }
    const { source, worker } = this.#from;
    this.#permits.void();
    this.#permits = new BatchPermits();
    this.#held.clear();
    this.#observer?.held(0);
    return [this.#feed(session, stop, source, worker, this.#permits)];
  }

  async #feed(
    session: Runner,
    stop: Stop,
    source: LeaseSource,
    worker: string,
    permits: BatchPermits,
  ): Promise<void> {
    let pass: number | undefined;
    try {
      pass = await this.#queue.begin(session, stop.signal);
      await unlessStopped(Promise.resolve(source.begin(worker)), stop);
      while (!stop.shouldStop()) {
        const lease = await unlessStopped(source.next(worker, [...this.#held.keys()]), stop);
        if (stop.shouldStop()) return;
        if (!lease) break;
        await this.#look(lease, worker);
        this.#held.set(lease.id, lease.to - lease.from);
        this.#observer?.held(this.#held.size);
        await this.#queue.push(session, [leaseValues(lease)], stop.signal);
        permits.add(Math.ceil((lease.to - lease.from) / this.#batchSize));
      }
      if (stop.shouldStop()) return;
      await this.#queue.end(session, stop.signal);
      permits.end();
    } catch (error) {
      if (
        stop.shouldStop() ||
        isShoalError(error, 'SHOAL_TF_CANCELLED') ||
        isShoalError(error, 'SHOAL_DISPOSED')
      )
        return;
      // `admit` throws the error; its caller decides whether to restart the input.
      permits.fail(error);
      if (this.#usesPermits) return;
      const lost = InputLost.of(error);
      if (!lost) this.#queue.close(session).catch(() => undefined);
      throw lost ?? error;
    } finally {
      if (stop.shouldStop() && pass !== undefined) await this.#queue.release(session, pass);
    }
  }

  /** Unblocks consumers that wait for a lease inside TensorFlow. */
  release(session: Runner): Promise<void> {
    return this.#queue.release(session);
  }

  /**
   * Checks a file on first use against the chief's, and records it to explain errors about corrupt records.
   */
  async #look({ file, size }: Lease, worker: string): Promise<void> {
    if (this.#files.has(file)) return;
    await checkFile(file, size, worker);
    this.#files.add(file);
    const { compression = 'none' } = this.#options;
    if (!this.#isRecordFiles) return;
    noteRecordFiles({ names: [file], compression }, this.#queue.dataset.variant.graph);
  }

  /**
   * Waits for the permit of one step; undefined at the end of the input. Throws if leases cannot be obtained or are
   * void: then the session and this input must be restarted.
   */
  admit(signal?: AbortSignal): Promise<BatchPermit | undefined> {
    this.#usesPermits = true;
    return this.#permits.take(signal);
  }

  /** Makes waiting and future calls of `admit` throw. */
  fail(error: unknown): void {
    this.#permits.fail(error);
  }

  /** Reports what a completed step consumed; `position` as the step fetched it. */
  async completed(position: Tensor<'int64'>): Promise<void> {
    if (!this.#from) return;
    const [lease, from, upTo] = Array.from(position.data, Number) as [number, number, number];
    // A step from before a restart of this input: its outcome is already known.
    if (!this.#held.has(lease)) return;
    await this.#from.source.done(this.#from.worker, lease, upTo, from);
    const left = this.#held.get(lease);
    // The input was restarted meanwhile.
    if (left === undefined) return;
    const now = left - (upTo - from);
    if (now > 0) this.#held.set(lease, now);
    else this.#held.delete(lease);
    this.#observer?.consumed(upTo - from, now <= 0);
    if (now <= 0) this.#observer?.held(this.#held.size);
  }
}

/** The worker's file must have the size of the chief's: a different file would give other records. */
async function checkFile(file: string, size: number | undefined, worker: string): Promise<void> {
  if (size === undefined) return;
  const found = await stat(file).catch(() => undefined);
  if (found?.size === size) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    found
      ? `${file} has ${found.size} bytes on ${worker} and ${size} on the chief`
      : `${file} does not exist on ${worker}, or cannot be read`,
    {
      hint: "Leased files must be the same on all machines; with train: { input: 'whole' } every worker reads its own.",
    },
  );
}

/** The answer, or undefined if the stop is requested first. */
async function unlessStopped<T>(answer: Promise<T>, { signal }: Stop): Promise<T | undefined> {
  if (!signal) return answer;
  let stopped = () => {};
  const stop = new Promise<undefined>((resolve) => {
    stopped = () => resolve(undefined);
  });
  signal.addEventListener('abort', stopped, { once: true });
  if (signal.aborted) stopped();
  try {
    return await Promise.race([answer, stop]);
  } finally {
    signal.removeEventListener('abort', stopped);
  }
}

const leaseValues = ({ id, term, file, offset, records, bytes = 0, size = 0, from, to, seed }: Lease) => [
  BigInt(id),
  BigInt(term),
  file,
  BigInt(offset),
  BigInt(records),
  BigInt(bytes),
  BigInt(bytes === 0 ? 0 : size - offset - bytes),
  BigInt(from),
  BigInt(to),
  BigInt(seed),
];

/** The batches of a lease with their positions. Single records are only read, not processed. */
function batchesOf<T, U>(
  lease: LeaseElement,
  { size, read, batch }: BatchMaking<T, U>,
  shuffle: number | undefined,
): Dataset<Placed<U>> {
  const all = read(lease);
  const records = shuffle === undefined ? all : shuffled(all, shuffle, lease.seed);
  const batches = batch(records.skip(lease.from).take(raw.sub(lease.to, lease.from)));
  const number: Spec = scalar('int64');
  const starts = raw.rangeDataset(lease.from, lease.to, int64(size), typesOf(number));
  const { lease: id, term, to } = lease;
  return zip({
    of: fromTensors({ id, term, to }).repeat(),
    from: new Dataset<Output<'int64'>>(starts, number),
    value: batches,
  }).map(({ of, from, value }) => {
    const upTo = raw.minimum(raw.addV2(from, int64(size)), of.to);
    return { lease: of.id, term: of.term, from, upTo, value };
  }) as unknown as Dataset<Placed<U>>;
}

/** Shuffles in the fixed order of the lease's seed. */
function shuffled<T>(dataset: Dataset<T>, buffer: number, seed: Output<'int64'>): Dataset<T> {
  const attrs = { reshuffleEachIteration: false, ...typesOf(dataset.spec) };
  return new Dataset<T>(
    raw.shuffleDataset(dataset.variant, int64(buffer), seed, int64(1), attrs),
    dataset.spec,
  );
}

/** Batches with their positions. The order is kept throughout. */
export class ShardBatches<T> {
  readonly #dataset: Dataset<Placed<T>>;

  constructor(dataset: Dataset<Placed<T>>) {
    this.#dataset = dataset;
  }

  map<const U>(
    fn: (value: T) => U,
    options: Pick<ParallelOptions, 'parallel'> = {},
  ): ShardBatches<DatasetElement<U>> {
    const mapped = this.#dataset.map(({ value, ...place }) => ({ ...place, value: fn(value) }), {
      parallel: options.parallel,
      deterministic: true,
    });
    return new ShardBatches<DatasetElement<U>>(mapped as unknown as Dataset<Placed<DatasetElement<U>>>);
  }

  parseExample<const F extends Features>(
    features: F,
    options: Pick<ParallelOptions, 'parallel'> = {},
  ): ShardBatches<ParsedFeatures<F>> {
    return this.map(
      (value) => parseExample(value as Output<'string'>, features),
      options,
    ) as unknown as ShardBatches<ParsedFeatures<F>>;
  }

  prefetch(buffer: Parallel = 'auto'): ShardBatches<T> {
    return new ShardBatches<T>(this.#dataset.prefetch(buffer));
  }

  iterator(options: IteratorOptions = {}): ShardIterator<T> {
    return new ShardIterator<T>(this.#dataset.iterator(options));
  }
}

export class ShardIterator<T> {
  readonly inner: DatasetIterator<Placed<T>>;

  constructor(inner: DatasetIterator<Placed<T>>) {
    this.inner = inner;
  }

  get initializer(): Operation {
    return this.inner.initializer;
  }

  /** The next batch and its position (int64 [4]: lease, from, upTo, term of the lease). */
  getNext(options: { readonly name?: string } = {}): { value: T; position: Output<'int64'> } {
    const { lease, term, from, upTo, value } = this.inner.getNext(options);
    const position = stack([lease, from, upTo, term]) as Output<'int64'>;
    return { value, position };
  }
}
