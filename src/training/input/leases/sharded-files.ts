/**
 * Record files as the input of a job on a cluster: `tf.data.shards({ files, batchSize, parse })`. The chief splits them
 * into shards and leases these to the workers; every worker must have the files at the same paths.
 */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Dataset } from '../dataset/dataset.js';
import type { Features, ParsedFeatures } from '../dataset/parse-example.js';
import type { Parallel } from '../dataset/recipe.js';
import type { Shard } from '../dataset/record-ranges.js';
import type { DatasetElement } from '../dataset/structure.js';
import { tfRecord } from '../files/files.js';
import { noRecords } from '../files/input-errors.js';
import type { LedgerPlan, LedgerSnapshot } from './ledger.js';
import { planShards } from './ledger-host.js';
import { ShardInput, type ShardOptions } from './shards.js';

export type Parse<T> = Features | ((records: Output<'string'>) => T);

export interface ShardedFilesOptions<T> extends ShardOptions {
  /** Names or patterns of TFRecord files. */
  readonly files: string | readonly string[];
  readonly batchSize: number;
  /** How often every record is used; null: forever. Default: 1. */
  readonly epochs?: number | null;
  /** Seed of the order of shards and records, if `shuffle` is set; default: 0. */
  readonly seed?: number;
  /** How many batches are parsed concurrently; default: 2. */
  readonly parallel?: Parallel;
  /** How many parsed batches are prefetched; default: 2. */
  readonly prefetch?: Parallel;
  /**
   * Whether to read and check all data first and skip corrupt records; default: false, only lengths are checked, and a
   * record with corrupt data fails the step that reads it.
   */
  readonly verify?: boolean;
  /**
   * The maximum number of records per shard; a multiple of the batch size avoids small batches. Default: about 10,000,
   * less if a worker would get fewer than 4 shards.
   */
  readonly recordsPerShard?: number;
  /** The features of the examples, or a function of a batch of serialized records. */
  readonly parse: Parse<T>;
}

/** Large enough to amortize a lease request, small compared to the dataset. */
const RECORDS_PER_SHARD = 10_000;

/** The default number of records per shard: a multiple of the batch size. */
const recordsPerShard = (batchSize: number): number =>
  Math.max(1, Math.round(RECORDS_PER_SHARD / batchSize)) * batchSize;

/** The plan of the chief's ledger, and notes for the log. */
export interface PlannedInput {
  readonly plan: LedgerPlan;
  readonly notes: readonly string[];
}

/** Input that can be leased to workers. */
export interface LeasableInput<T = unknown> {
  /** The input ops, in the current graph. */
  build(): { readonly input: ShardInput; readonly value: T; readonly position: Output<'int64'> };
  /** Scans the files, which must exist. */
  plan(options?: PlanOptions): Promise<PlannedInput>;
}

export interface PlanOptions {
  /** How many workers share the records; default: 1. */
  readonly workers?: number;
  readonly signal?: AbortSignal;
}

/**
 * The minimum number of shards per worker, if there are enough records: it limits the wait for slow workers.
 */
const SHARDS_PER_WORKER = 4;

/** Splits files into shards small enough for all workers to get some. */
export async function splitFairly<P extends { readonly shards: readonly Shard[] }>(
  batchSize: number,
  workers: number,
  split: (recordsPerShard: number) => Promise<P>,
): Promise<P> {
  const most = recordsPerShard(batchSize);
  const large = await split(most);
  const wanted = SHARDS_PER_WORKER * workers;
  if (workers === 1 || large.shards.length >= wanted) return large;
  const records = large.shards.reduce((sum, shard) => sum + shard.records, 0);
  const fair = Math.max(1, Math.floor(records / wanted / batchSize)) * batchSize;
  return fair < most ? split(fair) : large;
}

export function shards<const F extends Features>(
  options: Omit<ShardedFilesOptions<unknown>, 'parse'> & { readonly parse: F },
): ShardedFiles<ParsedFeatures<F>>;
export function shards<const T>(
  options: Omit<ShardedFilesOptions<unknown>, 'parse'> & { readonly parse: (records: Output<'string'>) => T },
): ShardedFiles<DatasetElement<T>>;
export function shards<T>(options: ShardedFilesOptions<T>): ShardedFiles<T> {
  return new ShardedFiles<T>(options);
}

export class ShardedFiles<T = unknown> {
  readonly options: ShardedFilesOptions<T>;

  constructor(options: ShardedFilesOptions<T>) {
    const { batchSize, recordsPerShard: most = 1 } = options;
    for (const [name, value] of Object.entries({ batchSize, recordsPerShard: most })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw invalid(`${name} of shards must be an integer of at least 1; got ${value}`);
    }
    this.options = options;
  }

  /** @internal */
  build(): { readonly input: ShardInput; readonly value: T; readonly position: Output<'int64'> } {
    const { batchSize, parse, parallel = 2, prefetch = 2 } = this.options;
    const input = new ShardInput(this.options);
    const batches = input.batch(batchSize);
    const parsed =
      typeof parse === 'function'
        ? batches.map((records) => parse(records), { parallel })
        : batches.parseExample(parse, { parallel });
    const { value, position } = parsed.prefetch(prefetch).iterator().getNext();
    return { input, value: value as T, position };
  }

  /** The same records for a single reader, in file order, once. */
  dataset(): Dataset<T> {
    const { files, batchSize, parse, compression, parallel = 2 } = this.options;
    const batches = tfRecord(files, { compression }).batch(batchSize);
    const parsed =
      typeof parse === 'function'
        ? batches.map((records) => parse(records as Output<'string'>), { parallel })
        : batches.parseExample(parse, { parallel });
    return parsed as unknown as Dataset<T>;
  }

  /** @internal */
  async plan({ signal, workers = 1 }: PlanOptions = {}): Promise<PlannedInput> {
    const { files, batchSize, epochs = 1, seed = 0, shuffle, compression, verify } = this.options;
    const { recordsPerShard: given } = this.options;
    const split = (most: number) => planShards(files, { recordsPerShard: most, compression, verify, signal });
    const planned = await (given === undefined ? splitFairly(batchSize, workers, split) : split(given));
    const { shards: found, corrupt } = planned;
    if (found.length === 0) throw noRecords(typeof files === 'string' ? [files] : files);
    const notes = corrupt.length > 0 ? [`${corrupt.length} corrupt records are skipped`] : [];
    return { plan: { shards: found, epochs, seed, shuffleShards: shuffle !== undefined }, notes };
  }
}

/**
 * Adapts a snapshot to a newer plan. Files may have been moved, there may be more epochs, and the same files may be
 * split differently, e.g. for another number of workers; the remaining shards are read as planned in the snapshot.
 * `notice` is for the log.
 */
export function adoptSnapshot(
  snapshot: LedgerSnapshot,
  plan: LedgerPlan,
): { readonly snapshot: LedgerSnapshot; readonly notice: string | undefined } {
  const { epochs } = plan;
  const then = recordsByFile(snapshot.plan.shards);
  const now = recordsByFile(plan.shards);
  const isSame = then.length === now.length && then.every(([, records], i) => records === now[i]?.[1]);
  const places = new Map(then.map(([file], i) => [file, (isSame ? now[i]?.[0] : file) ?? file]));
  const sizes = new Map(plan.shards.map(({ file, size }) => [file, size]));
  const kept = snapshot.plan.shards.map((shard) => {
    const file = places.get(shard.file) as string;
    return { ...shard, file, size: sizes.get(file) ?? shard.size };
  });
  return {
    snapshot: { ...snapshot, plan: { ...snapshot.plan, shards: kept, epochs } },
    notice: isSame
      ? undefined
      : 'the files differ from those of the checkpoint; its remaining shards are read as planned then',
  };
}

/** The files in order, with their record counts. */
function recordsByFile(shards: readonly Shard[]): (readonly [file: string, records: number])[] {
  const counts = new Map<string, number>();
  for (const { file, records } of shards) counts.set(file, (counts.get(file) ?? 0) + records);
  return [...counts];
}
