/**
 * How a dataset is made from files: the files and the transformations of their records. Datasets keep it so that a job
 * can apply the same transformations to file ranges that are leased to its workers.
 *
 * Some transformations give another result on ranges than on all records: `pipelineOf` reports these.
 */

import type { Features } from './parse-example.js';
import type { RecordFiles } from './record-ranges.js';

/** How many calls run concurrently; 'auto' lets TensorFlow decide. */
export type Parallel = number | 'auto';

export interface ParallelOptions {
  /** How many elements are processed concurrently; default: 1. */
  readonly parallel?: Parallel;
  /** Whether to keep the order of elements; default: true. false can be faster. */
  readonly deterministic?: boolean;
}

/** A transformation; `D` is any dataset. */
export type Change<D> =
  | {
      readonly kind: 'map';
      readonly fn: (element: never) => unknown;
      readonly options: ParallelOptions;
    }
  | { readonly kind: 'parse'; readonly features: Features; readonly options: ParallelOptions }
  | {
      readonly kind: 'batch';
      readonly size: number;
      readonly dropRemainder: boolean;
      readonly again: (dataset: D) => D;
    }
  /** The buffer is undefined if the graph computes it. */
  | {
      readonly kind: 'shuffle';
      readonly buffer: number | undefined;
      readonly seed: number | undefined;
      readonly isFixed: boolean;
    }
  /** null: forever; undefined: the graph computes it. */
  | { readonly kind: 'repeat'; readonly times: number | null | undefined }
  | { readonly kind: 'prefetch' }
  | { readonly kind: 'other'; readonly name: string };

/** A source that cannot be split into ranges of records, and why. File names may become files of records. */
export interface NoRecords {
  readonly why: string;
  readonly names?: readonly string[];
  readonly isShuffled?: boolean;
}

export interface Recipe<D> {
  readonly files: RecordFiles<D> | NoRecords;
  readonly changes: readonly Change<D>[];
}

type Each = Change<never> & { readonly kind: 'map' | 'parse' };

/** A recipe that works on ranges: transformations of records, batching, transformations of batches. */
export interface Pipeline<D> {
  readonly files: RecordFiles<D>;
  readonly records: readonly Each[];
  readonly batch: Change<D> & { readonly kind: 'batch' };
  readonly batches: readonly Each[];
  /** null: forever. */
  readonly epochs: number | null;
  readonly shuffle: number | undefined;
  readonly seed: number | undefined;
}

/** The pipeline of a recipe; or the reason why it cannot work on ranges. */
export function pipelineOf<D>({ files, changes }: Recipe<D>): Pipeline<D> | string {
  if ('why' in files) return files.why;
  const records: Each[] = [];
  const batches: Each[] = [];
  let batch: (Change<D> & { kind: 'batch' }) | undefined;
  let epochs: number | null = 1;
  let shuffle: number | undefined;
  let seed: number | undefined;
  for (const change of changes) {
    switch (change.kind) {
      case 'map':
      case 'parse':
        (batch ? batches : records).push(change);
        break;
      case 'batch':
        if (batch) return 'it makes batches of batches';
        batch = change;
        break;
      case 'shuffle':
        if (batch) return 'it shuffles batches; records are shuffled before batch()';
        if (change.buffer === undefined) return 'the graph computes the buffer size of its shuffle()';
        if (change.isFixed) return 'its shuffle() keeps one order (reshuffleEachIteration: false)';
        shuffle = Math.max(shuffle ?? 0, change.buffer);
        seed = change.seed ?? seed;
        break;
      case 'repeat':
        if (change.times === undefined) return 'the graph computes the count of its repeat()';
        if (change.times === 0) return 'it is repeated 0 times';
        epochs = epochs === null || change.times === null ? null : epochs * change.times;
        break;
      case 'prefetch':
        break;
      case 'other':
        return change.name === 'shard'
          ? 'it selects its own part with shard()'
          : `${change.name}() gives other results on ranges than on all records`;
    }
  }
  if (!batch) return 'it produces single records: batch() is missing';
  return { files, records, batch, batches, epochs, shuffle, seed };
}
