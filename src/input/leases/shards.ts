/**
 * The worker's side of data shards: a dataset over the leases that the chief's ledger gives, read by TensorFlow.
 * JavaScript sees leases and counts, never records.
 *
 * Every batch carries its position: the lease, and which of its records it holds. A step that fetches the position
 * along with its update knows, when it has completed, what it consumed; `completed` reports that. What was merely
 * read ahead is not reported, and is leased again if this worker dies.
 *
 * A step that asks `admit` first never waits for a lease inside of TensorFlow, where it would hold up a cut.
 *
 * A batch never spans two leases: it would wait for a lease that the ledger can't give before the batch is
 * consumed. The last batch of a lease may therefore be smaller.
 */
import { stat } from 'node:fs/promises';
import { invalid, isShoalError, ShoalError } from '../../errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import { stack } from '../../ops/arrays.js';
import * as raw from '../../ops/generated/index.js';
import type { Tensor } from '../../tensor/tensor.js';
import { Dataset, int64, type Parallel, type ParallelOptions } from '../dataset/dataset.js';
import { FedQueue, InputLost, type Runner } from '../dataset/fed-queue.js';
import { INPUT_FEEDERS } from '../dataset/generator.js';
import type { DatasetIterator, IteratorOptions } from '../dataset/iterator.js';
import { type Features, type ParsedFeatures, parseExample } from '../dataset/parse-example.js';
import type { ByteRange } from '../dataset/record-ranges.js';
import { fromTensors, zip } from '../dataset/sources.js';
import { type ElementOf, type Spec, typesOf } from '../dataset/structure.js';
import { noteRecordFiles } from '../files/corrupt-records.js';
import { recordsOfRange, type TFRecordOptions } from '../files/files.js';
import { type BatchPermit, BatchPermits } from './batch-permits.js';
import type { Lease } from './ledger.js';
import type { LeaseSource } from './ledger-host.js';

interface LeaseElement extends ByteRange {
  readonly lease: Output<'int64'>;
  readonly from: Output<'int64'>;
  readonly to: Output<'int64'>;
  readonly seed: Output<'int64'>;
}

const scalar = (dtype: 'int64' | 'string'): Spec => ({ kind: 'tensor', dtype, shape: [] });
const LEASE: Spec = {
  kind: 'record',
  entries: [
    ['lease', scalar('int64')],
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

/** A batch, its lease, and which records of the shard it has: from one place up to another. */
interface Placed<T> {
  readonly lease: Output<'int64'>;
  readonly from: Output<'int64'>;
  readonly upTo: Output<'int64'>;
  readonly value: T;
}

export interface ShardOptions extends Pick<TFRecordOptions, 'compression' | 'bufferSize'> {
  /** Draws records at random from a buffer of this many within each shard; in file order when left out. */
  readonly shuffle?: number | undefined;
  /** How many leases wait while one is read; more of them bridge a slow ledger. */
  readonly leasesAhead?: number | undefined;
  readonly name?: string | undefined;
}

/** How batches are made of ranges. */
export interface BatchMaking<T, U> {
  readonly size: number;
  /** All records of a range, in one order. */
  readonly read: (range: ByteRange) => Dataset<T>;
  /** Makes a batch of each `size` records; of those at the end a smaller one. */
  readonly batch: (records: Dataset<T>) => Dataset<U>;
}

/** What starts and stops together with a session. */
interface Stop {
  shouldStop(): boolean;
  readonly signal?: AbortSignal;
}

export class ShardInput {
  readonly name: string;
  readonly #queue: FedQueue<LeaseElement>;
  readonly #options: ShardOptions;
  /** The leases that are not consumed, with the records that they have left. */
  readonly #held = new Map<number, number>();
  readonly #files = new Set<string>();
  #permits = new BatchPermits();
  #stepsByTickets = false;
  #batchSize = 1;
  /** Whether this reads TFRecord files by itself, whose corrupt records can be explained. */
  #isRecordFiles = false;
  #from: { readonly source: LeaseSource; readonly worker: string } | undefined;

  constructor(options: ShardOptions = {}) {
    this.name = options.name ?? 'shards';
    this.#options = options;
    const capacity = options.leasesAhead ?? 2;
    // Who is told of a lease has others to read: there is time.
    this.#queue = new FedQueue<LeaseElement>(LEASE, { capacity, name: this.name, longestPauseMs: 80 });
    this.#queue.dataset.variant.graph.addToCollection(INPUT_FEEDERS, this);
  }

  /** Says where leases come from, before the session starts. */
  connect(source: LeaseSource, worker: string): void {
    this.#from = { source, worker };
  }

  /** Serialized records, so many at a time. */
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
   * Asks for leases until all is over, as a feeder of the graph. A session that is made anew begins anew: its
   * iterators are to be initialized first.
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
      // Who asks for a permit hears of it, and knows whether the input is to begin anew.
      permits.fail(error);
      if (this.#stepsByTickets) return;
      const lost = InputLost.of(error);
      if (!lost) this.#queue.close(session).catch(() => undefined);
      throw lost ?? error;
    } finally {
      if (stop.shouldStop() && pass !== undefined) await this.#queue.release(session, pass);
    }
  }

  /** Ends whoever waits for a lease inside of TensorFlow. */
  release(session: Runner): Promise<void> {
    return this.#queue.release(session);
  }

  /** A file is looked at when it comes first: whether it is the chief's, and for an error about a corrupt record of it. */
  async #look({ file, size }: Lease, worker: string): Promise<void> {
    if (this.#files.has(file)) return;
    await checkFile(file, size, worker);
    this.#files.add(file);
    const { compression = 'none' } = this.#options;
    if (!this.#isRecordFiles) return;
    noteRecordFiles({ names: [file], compression }, this.#queue.dataset.variant.graph);
  }

  /**
   * Waits until there is a batch for one more step; undefined when the input is at its end. Fails when leases can't be
   * had, or not go on: then the session is to be made ready again, and this input with it.
   */
  admit(signal?: AbortSignal): Promise<BatchPermit | undefined> {
    this.#stepsByTickets = true;
    return this.#permits.take(signal);
  }

  /** Whoever waits for a batch hears that something is to be done first. */
  fail(error: unknown): void {
    this.#permits.fail(error);
  }

  /** Reports what a completed step consumed; `position` as the step fetched it. */
  async completed(position: Tensor<'int64'>): Promise<void> {
    if (!this.#from) return;
    const [lease, from, upTo] = Array.from(position.data, Number) as [number, number, number];
    const left = this.#held.get(lease);
    // A step of before this input began anew: what became of it has been looked at.
    if (left === undefined) return;
    await this.#from.source.done(this.#from.worker, lease, upTo, from);
    const now = (this.#held.get(lease) ?? 0) - (upTo - from);
    if (now > 0) this.#held.set(lease, now);
    else this.#held.delete(lease);
  }
}

/** Leases are of the chief's files: others under the same paths would give other records, or none. */
async function checkFile(file: string, size: number | undefined, worker: string): Promise<void> {
  if (size === undefined) return;
  const found = await stat(file).catch(() => undefined);
  if (found?.size === size) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    found
      ? `${file} has ${found.size} bytes on ${worker} and ${size} on the chief`
      : `${file} is not there on ${worker}, or can't be read`,
    {
      hint: "Leased files must be the same on all machines; train: { input: 'whole' } lets every worker read its own.",
    },
  );
}

/** The answer, or undefined when a stop comes first. */
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

const leaseValues = ({ id, file, offset, records, bytes = 0, size = 0, from, to, seed }: Lease) => [
  BigInt(id),
  file,
  BigInt(offset),
  BigInt(records),
  BigInt(bytes),
  BigInt(bytes === 0 ? 0 : size - offset - bytes),
  BigInt(from),
  BigInt(to),
  BigInt(seed),
];

/** The batches of a lease with their places. Nothing is done for a single record but to read it. */
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
  const { lease: id, to } = lease;
  return zip({
    of: fromTensors({ id, to }).repeat(),
    from: new Dataset<Output<'int64'>>(starts, number),
    value: batches,
  }).map(({ of, from, value }) => {
    const upTo = raw.minimum(raw.addV2(from, int64(size)), of.to);
    return { lease: of.id, from, upTo, value };
  }) as unknown as Dataset<Placed<U>>;
}

/** In the one order that the lease's seed gives. */
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
  ): ShardBatches<ElementOf<U>> {
    const mapped = this.#dataset.map(({ value, ...place }) => ({ ...place, value: fn(value) }), {
      parallel: options.parallel,
      deterministic: true,
    });
    return new ShardBatches<ElementOf<U>>(mapped as unknown as Dataset<Placed<ElementOf<U>>>);
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

  /** The next batch, and its position (int64 [3]: the lease, and its records from one count up to another). */
  getNext(options: { readonly name?: string } = {}): { value: T; position: Output<'int64'> } {
    const { lease, from, upTo, value } = this.inner.getNext(options);
    const position = stack([lease, from, upTo]) as Output<'int64'>;
    return { value, position };
  }
}
