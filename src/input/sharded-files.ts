/**
 * Files of records as the input of a job on a cluster: `tf.data.shards({ files, batchSize, parse })`. The chief cuts
 * them into shards and leases these to the workers; every worker must see the files under the same paths.
 */
import { invalid } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import type { Dataset, Parallel } from './dataset.js';
import { tfRecord } from './files.js';
import type { LedgerCut, LedgerPlan } from './ledger.js';
import { type PlanShardsOptions, planShards } from './ledger-host.js';
import type { Features, ParsedFeatures } from './parse-example.js';
import { ShardInput, type ShardOptions } from './shards.js';
import type { ElementOf } from './structure.js';

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

export function shards<const F extends Features>(
  options: Common & { readonly parse: F },
): ShardedFiles<ParsedFeatures<F>>;
export function shards<const T>(
  options: Common & { readonly parse: (records: Output<'string'>) => T },
): ShardedFiles<ElementOf<T>>;
export function shards<T>(options: ShardedFilesOptions<T>): ShardedFiles<T> {
  return new ShardedFiles<T>(options);
}

export class ShardedFiles<T = unknown> {
  readonly options: ShardedFilesOptions<T>;

  constructor(options: ShardedFilesOptions<T>) {
    const { batchSize, recordsPerShard = 1 } = options;
    for (const [name, value] of Object.entries({ batchSize, recordsPerShard })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw invalid(`${name} of shards must be a whole number from 1; it is ${value}`);
    }
    this.options = options;
  }

  /** The input ops, in the current graph. */
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

  /** Goes through the files, which must be there. */
  async plan(signal?: AbortSignal): Promise<LedgerPlan> {
    const { files, batchSize, epochs = 1, seed = 0, shuffle, compression, verify } = this.options;
    const whole = Math.max(1, Math.round(RECORDS_PER_SHARD / batchSize)) * batchSize;
    const { recordsPerShard = whole } = this.options;
    const planned = await planShards(files, { recordsPerShard, compression, verify, signal });
    return { shards: planned.shards, epochs, seed, shuffleShards: shuffle !== undefined };
  }
}

/**
 * A cut for a plan that was made since. Files may have been moved, and there may be more epochs; where the shards are
 * others, what is left is read as it was planned then. `notice` tells what a person should know.
 */
export function adoptCut(
  cut: LedgerCut,
  plan: LedgerPlan,
): { readonly cut: LedgerCut; readonly notice: string | undefined } {
  const { epochs } = plan;
  const isSame =
    cut.plan.shards.length === plan.shards.length &&
    cut.plan.shards.every(({ offset, records }, i) => {
      const other = plan.shards[i];
      return other?.offset === offset && other.records === records;
    });
  const { shards: kept } = isSame ? plan : cut.plan;
  return {
    cut: { ...cut, plan: { ...cut.plan, shards: kept, epochs } },
    notice: isSame
      ? undefined
      : 'the files are not those of the checkpoint; what it has left is read as it was planned then',
  };
}
