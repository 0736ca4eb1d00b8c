/**
 * A dataset of record files as the leased input of a job: what was done with the records of all files is done with
 * those of the ranges that the chief leases to this worker.
 */
import { stat } from 'node:fs/promises';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Dataset } from '../dataset/dataset.js';
import { type Change, type Pipeline, pipelineOf } from '../dataset/recipe.js';
import type { ByteRange, Shard } from '../dataset/record-ranges.js';
import { matchFiles } from '../files/corrupt-records.js';
import { noRecords } from '../files/input-errors.js';
import { type LeasableInput, type PlannedInput, type PlanOptions, splitFairly } from './sharded-files.js';
import { type ShardBatches, ShardInput } from './shards.js';

/** The dataset as leased input, or the reason why it cannot be. Undefined: it is not made from files. */
export function leasable<T>(
  dataset: Dataset<T>,
  options: LeasedDatasetOptions = {},
): LeasedDataset<T> | string | undefined {
  if (!dataset.recipe) return undefined;
  const pipeline = pipelineOf(dataset.recipe);
  return typeof pipeline === 'string' ? pipeline : new LeasedDataset<T>(pipeline, options);
}

export interface LeasedDatasetOptions {
  /** Seed for the order of records if the dataset has none. */
  readonly seed?: number;
  /** The maximum number of records per shard; default: by the number of workers. */
  readonly recordsPerShard?: number;
}

type Each = Change<Dataset> & { readonly kind: 'map' | 'parse' };

export class LeasedDataset<T = unknown> implements LeasableInput<T> {
  readonly #pipeline: Pipeline<Dataset>;
  readonly #options: LeasedDatasetOptions;

  constructor(pipeline: Pipeline<Dataset>, options: LeasedDatasetOptions) {
    this.#pipeline = pipeline;
    this.#options = options;
  }

  build(): { readonly input: ShardInput; readonly value: T; readonly position: Output<'int64'> } {
    const { files, records, batch, batches, shuffle } = this.#pipeline;
    const input = new ShardInput({ shuffle });
    const read = (range: ByteRange) => files.read(range).take(range.records);
    const made = input.batches({
      size: batch.size,
      read,
      batch: (all) => batch.again(records.reduce(recordsBy, all)),
    });
    const { value, position } = batches.reduce(batchesBy, made).prefetch(2).iterator().getNext();
    return { input, value: value as T, position };
  }

  async plan({ signal, workers = 1 }: PlanOptions = {}): Promise<PlannedInput> {
    const { files, batch, epochs, shuffle } = this.#pipeline;
    const { recordsPerShard: given } = this.#options;
    const names = await matchFiles(files.names);
    const split = (most: number) => this.#split(names, most, signal);
    const made = await (given === undefined ? splitFairly(batch.size, workers, split) : split(given));
    const { shards, reasons, leftOut } = made;
    if (shards.length === 0) throw noRecords(files.names);
    const notes = [...reasons].map(([why, count]) => `${count} files are one shard each: ${why}`);
    if (leftOut > 0) notes.push(`dropRemainder skips ${leftOut} records`);
    const shuffleShards = shuffle !== undefined || files.isShuffled;
    const seed = this.#pipeline.seed ?? this.#options.seed ?? 0;
    return { plan: { shards, epochs, seed, shuffleShards }, notes };
  }

  async #split(names: readonly string[], rangeRecords: number, signal: AbortSignal | undefined) {
    const { files, batch } = this.#pipeline;
    const shards: Shard[] = [];
    const reasons = new Map<string, number>();
    let leftOut = 0;
    for (const file of names) {
      const { ranges, whole } = await files.scan(file, { rangeRecords, signal });
      const { size } = await stat(file);
      if (whole !== undefined) reasons.set(whole, (reasons.get(whole) ?? 0) + 1);
      for (const range of ranges) {
        const rest = batch.dropRemainder ? range.records % batch.size : 0;
        leftOut += rest;
        if (range.records > rest) shards.push({ ...range, size, records: range.records - rest });
      }
    }
    return { shards, reasons, leftOut };
  }
}

function recordsBy(records: Dataset, change: Each): Dataset {
  if (change.kind === 'parse') return records.parseExample(change.features, inOrder(change)) as Dataset;
  return records.map(change.fn as (element: unknown) => unknown, inOrder(change)) as Dataset;
}

function batchesBy(batches: ShardBatches<unknown>, change: Each): ShardBatches<unknown> {
  if (change.kind === 'parse') return batches.parseExample(change.features, change.options);
  return batches.map(change.fn as (element: unknown) => unknown, change.options);
}

/** Records are identified by position, so their order must be deterministic. */
const inOrder = ({ options }: Each) =>
  options.parallel === undefined ? {} : { parallel: options.parallel, deterministic: true };
