/**
 * A dataset of record files as the leased input of a job: what was done with the records of all files is done with those
 * of the ranges that the chief leases to this worker.
 */
import { stat } from 'node:fs/promises';
import { invalid } from '../../errors/errors.js';
import type { Output } from '../../graph/operation.js';
import type { Dataset } from '../dataset/dataset.js';
import { type Change, type Pipeline, pipelineOf } from '../dataset/recipe.js';
import type { ByteRange, Shard } from '../dataset/record-ranges.js';
import { matchFiles } from '../files/corrupt-records.js';
import { cutFairly, type LeasableInput, type PlannedInput, type PlanOptions } from './sharded-files.js';
import { type ShardBatches, ShardInput } from './shards.js';

/** The dataset as leased input; or a text, why it can't be. Undefined: it is not made of files at all. */
export function leasable<T>(
  dataset: Dataset<T>,
  options: LeasedDatasetOptions = {},
): LeasedDataset<T> | string | undefined {
  if (!dataset.recipe) return undefined;
  const pipeline = pipelineOf(dataset.recipe);
  return typeof pipeline === 'string' ? pipeline : new LeasedDataset<T>(pipeline, options);
}

export interface LeasedDatasetOptions {
  /** Rules the order of records where the dataset has no seed of its own. */
  readonly seed?: number | undefined;
  /** The most records in a shard: some batches. */
  readonly recordsPerShard?: number | undefined;
}

type Each = Change & { readonly kind: 'map' | 'parse' };

export class LeasedDataset<T = unknown> implements LeasableInput<T> {
  readonly #pipeline: Pipeline;
  readonly #options: LeasedDatasetOptions;

  constructor(pipeline: Pipeline, options: LeasedDatasetOptions) {
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
    const { recordsPerShard: told } = this.#options;
    const names = await matchFiles(files.names);
    const cut = (most: number) => this.#cut(names, most, signal);
    const made = await (told === undefined ? cutFairly(batch.size, workers, cut) : cut(told));
    const { shards, reasons, leftOut } = made;
    if (shards.length === 0) throw invalid(`There are no records in ${files.names.join(', ')}`);
    const notes = [...reasons].map(([why, count]) => `${count} of the files as one shard each: ${why}`);
    if (leftOut > 0) notes.push(`${leftOut} records are left out by dropRemainder`);
    const shuffleShards = shuffle !== undefined || files.isShuffled;
    const seed = this.#pipeline.seed ?? this.#options.seed ?? 0;
    return { plan: { shards, epochs, seed, shuffleShards }, notes };
  }

  async #cut(names: readonly string[], rangeRecords: number, signal: AbortSignal | undefined) {
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

/** A record is known by its place. */
const inOrder = ({ options }: Each) =>
  options.parallel === undefined ? {} : { parallel: options.parallel, deterministic: true };
