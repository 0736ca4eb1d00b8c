/**
 * Files of records as the input of a job on a cluster: `tf.data.shards({ files, batchSize, parse })`. The chief cuts
 * them into shards and leases these to the workers; every worker must see the files under the same paths.
 */
import { invalid } from '../../errors/errors.js';
import type { Output } from '../../graph/operation.js';
import type { Dataset, Parallel } from '../dataset/dataset.js';
import type { Features, ParsedFeatures } from '../dataset/parse-example.js';
import type { Shard } from '../dataset/record-ranges.js';
import type { ElementOf } from '../dataset/structure.js';
import { tfRecord } from '../files/files.js';
import type { LedgerPlan, LedgerSnapshot } from './ledger.js';
import { type PlanShardsOptions, planShards } from './ledger-host.js';
import { ShardInput, type ShardOptions } from './shards.js';

type Parse<T> = Features | ((records: Output<'string'>) => T);

interface Common extends ShardOptions, Pick<PlanShardsOptions, 'compression' | 'verify' | 'recordsPerShard'> {
  /** Names or patterns of TFRecord files. */
  readonly files: string | readonly string[];
  readonly batchSize: number;
  /** How often every record is used; 1 unless told, null for ever. */
  readonly epochs?: number | null | undefined;
  /** Rules the order of shards and of the records in them, which `shuffle` asks for. */
  readonly seed?: number | undefined;
  /** Batches that are parsed at once. */
  readonly parallel?: Parallel | undefined;
  /** Batches that wait, parsed; 2 unless told. */
  readonly prefetch?: Parallel | undefined;
}

export interface ShardedFilesOptions<T> extends Common {
  /** The features of the examples, or a function of a batch of serialized records. */
  readonly parse: Parse<T>;
}

/** A shard is worth the question for it, and small against what there is. */
const RECORDS_PER_SHARD = 10_000;

/** How many records a shard has unless told: whole batches. */
const recordsPerShard = (batchSize: number): number =>
  Math.max(1, Math.round(RECORDS_PER_SHARD / batchSize)) * batchSize;

/** What the chief leases, and what a person should know of it. */
export interface PlannedInput {
  readonly plan: LedgerPlan;
  readonly notes: readonly string[];
}

/** Input that can be leased to workers. */
export interface LeasableInput<T = unknown> {
  /** The input ops, in the current graph. */
  build(): { readonly input: ShardInput; readonly value: T; readonly position: Output<'int64'> };
  /** Goes through the files, which must be there. */
  plan(options?: PlanOptions): Promise<PlannedInput>;
}

export interface PlanOptions {
  /** Who shares the records; 1 unless told. */
  readonly workers?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** So many shards for each worker at least, if the records suffice: who is slow does not keep the others waiting long. */
const SHARDS_PER_WORKER = 4;

/** Cuts files into shards of a size that all workers have some of them. */
export async function cutFairly<P extends { readonly shards: readonly Shard[] }>(
  batchSize: number,
  workers: number,
  cut: (recordsPerShard: number) => Promise<P>,
): Promise<P> {
  const most = recordsPerShard(batchSize);
  const large = await cut(most);
  const wanted = SHARDS_PER_WORKER * workers;
  if (workers === 1 || large.shards.length >= wanted) return large;
  const records = large.shards.reduce((sum, shard) => sum + shard.records, 0);
  const fair = Math.max(1, Math.floor(records / wanted / batchSize)) * batchSize;
  return fair < most ? cut(fair) : large;
}

export function shards<const F extends Features>(
  options: Common & { readonly parse: F },
): ShardedFiles<ParsedFeatures<F>>;
export function shards<const T>(
  options: Common & { readonly parse: (records: Output<'string'>) => T },
): ShardedFiles<ElementOf<T>>;
export function shards<T>(options: ShardedFilesOptions<T>): ShardedFiles<T> {
  return new ShardedFiles<T>(options);
}

export class ShardedFiles<T = unknown> implements LeasableInput<T> {
  readonly options: ShardedFilesOptions<T>;

  constructor(options: ShardedFilesOptions<T>) {
    const { batchSize, recordsPerShard: most = 1 } = options;
    for (const [name, value] of Object.entries({ batchSize, recordsPerShard: most })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw invalid(`${name} of shards must be a whole number from 1; it is ${value}`);
    }
    this.options = options;
  }

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

  /** The same records for one reader alone, in the order of the files, once. */
  dataset(): Dataset<T> {
    const { files, batchSize, parse, compression, parallel = 2 } = this.options;
    const batches = tfRecord(files, { compression }).batch(batchSize);
    const parsed =
      typeof parse === 'function'
        ? batches.map((records) => parse(records as Output<'string'>), { parallel })
        : batches.parseExample(parse, { parallel });
    return parsed as unknown as Dataset<T>;
  }

  async plan({ signal, workers = 1 }: PlanOptions = {}): Promise<PlannedInput> {
    const { files, batchSize, epochs = 1, seed = 0, shuffle, compression, verify } = this.options;
    const { recordsPerShard: told } = this.options;
    const cut = (most: number) => planShards(files, { recordsPerShard: most, compression, verify, signal });
    const planned = await (told === undefined ? cutFairly(batchSize, workers, cut) : cut(told));
    const { shards: found, corrupt } = planned;
    const notes = corrupt.length > 0 ? [`${corrupt.length} corrupt records are left out`] : [];
    return { plan: { shards: found, epochs, seed, shuffleShards: shuffle !== undefined }, notes };
  }
}

/**
 * A cut for a plan that was made since. Files may have been moved, there may be more epochs, and the same files may be
 * cut otherwise, as for another number of workers; what is left is read as it was planned then. `notice` tells what a
 * person should know.
 */
export function adoptCut(
  cut: LedgerSnapshot,
  plan: LedgerPlan,
): { readonly cut: LedgerSnapshot; readonly notice: string | undefined } {
  const { epochs } = plan;
  const then = recordsByFile(cut.plan.shards);
  const now = recordsByFile(plan.shards);
  const isSame = then.length === now.length && then.every(([, records], i) => records === now[i]?.[1]);
  const places = new Map(then.map(([file], i) => [file, (isSame ? now[i]?.[0] : file) ?? file]));
  const sizes = new Map(plan.shards.map(({ file, size }) => [file, size]));
  const kept = cut.plan.shards.map((shard) => {
    const file = places.get(shard.file) as string;
    return { ...shard, file, size: sizes.get(file) ?? shard.size };
  });
  return {
    cut: { ...cut, plan: { ...cut.plan, shards: kept, epochs } },
    notice: isSame
      ? undefined
      : 'the files are not those of the checkpoint; what it has left is read as it was planned then',
  };
}

/** The files in their order, and how many records each has. */
function recordsByFile(shards: readonly Shard[]): (readonly [file: string, records: number])[] {
  const counts = new Map<string, number>();
  for (const { file, records } of shards) counts.set(file, (counts.get(file) ?? 0) + records);
  return [...counts];
}
