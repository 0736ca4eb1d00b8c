/**
 * How a dataset was made of files: the files, and what was done with their records. Datasets keep it, so that a job can
 * make the same of ranges of the files that are leased to its workers.
 *
 * Not everything can be done with a range as with the whole: `pipelineOf` says what it is that can't.
 */

import type { Dataset, ParallelOptions } from './dataset.js';
import type { Features } from './parse-example.js';
import type { RecordFiles } from './record-ranges.js';

export type Change =
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
      readonly again: (dataset: Dataset) => Dataset;
    }
  /** The buffer is undefined where it is made in the graph. */
  | {
      readonly kind: 'shuffle';
      readonly buffer: number | undefined;
      readonly seed: number | undefined;
      readonly isFixed: boolean;
    }
  /** null: for ever; undefined: as the graph says. */
  | { readonly kind: 'repeat'; readonly times: number | null | undefined }
  | { readonly kind: 'prefetch' }
  | { readonly kind: 'other'; readonly name: string };

/** What can't be cut into ranges of records, and why. Names of files may become files of records. */
export interface NoRecords {
  readonly why: string;
  readonly names?: readonly string[] | undefined;
  readonly isShuffled?: boolean | undefined;
}

export interface Recipe {
  readonly files: RecordFiles | NoRecords;
  readonly changes: readonly Change[];
}

type Each = Change & { readonly kind: 'map' | 'parse' };

/** A recipe that works on ranges: records, one by one; batches of them; batches, one by one. */
export interface Pipeline {
  readonly files: RecordFiles;
  readonly records: readonly Each[];
  readonly batch: Change & { readonly kind: 'batch' };
  readonly batches: readonly Each[];
  /** null: for ever. */
  readonly epochs: number | null;
  readonly shuffle: number | undefined;
  readonly seed: number | undefined;
}

/** The pipeline of a recipe; or a text, what of it can't be done with ranges of files. */
export function pipelineOf({ files, changes }: Recipe): Pipeline | string {
  if ('why' in files) return files.why;
  const records: Each[] = [];
  const batches: Each[] = [];
  let batch: (Change & { kind: 'batch' }) | undefined;
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
        if (change.buffer === undefined) return 'the buffer of its shuffle() is made in the graph';
        if (change.isFixed) return 'its shuffle() keeps one order (reshuffleEachIteration: false)';
        shuffle = Math.max(shuffle ?? 0, change.buffer);
        seed = change.seed ?? seed;
        break;
      case 'repeat':
        if (change.times === undefined) return 'the count of its repeat() is made in the graph';
        if (change.times === 0) return 'it is repeated 0 times';
        epochs = epochs === null || change.times === null ? null : epochs * change.times;
        break;
      case 'prefetch':
        break;
      case 'other':
        return change.name === 'shard'
          ? 'it takes its own part by shard()'
          : `what ${change.name}() gives of a range is not what it gives of all`;
    }
  }
  if (!batch) return 'it gives single records: batch() is missing';
  return { files, records, batch, batches, epochs, shuffle, seed };
}
