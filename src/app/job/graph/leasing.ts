/**
 * Decides whether the workers of a job share the records of its input or each reads all of them. Several workers share
 * files by default. The decision is logged.
 */
import { invalid } from '../../../base/errors/errors.js';
import type { Dataset } from '../../../training/input/dataset/dataset.js';
import { leasable } from '../../../training/input/leases/leased-dataset.js';
import { type LeasableInput, ShardedFiles } from '../../../training/input/leases/sharded-files.js';
import { type InputValues, type JobDefinition, notElastic, WHY_LEASED } from '../definition/define-job.js';

export type Leasing =
  | { readonly kind: 'leased'; readonly input: LeasableInput<InputValues>; readonly hint?: string }
  | { readonly kind: 'whole'; readonly line?: string };

const WHOLE = "train: { input: 'whole' } lets every worker read all";

/** What to know about files that one worker reads. */
function fromStart(given: Dataset<InputValues>): { readonly line?: string } {
  const found = leasable(given, {});
  if (found === undefined || typeof found === 'string') return {};
  const line =
    "every start reads it from the beginning; train: { input: 'shards' } continues after a restart";
  return { line };
}

export function leasingOf(
  { name, train, seed }: JobDefinition,
  given: Dataset<InputValues> | ShardedFiles<InputValues>,
  /** `isOwn`: the input function has read the index or count of the worker. */
  { workers, isOwn }: { readonly workers: number; readonly isOwn: boolean },
): Leasing {
  const { input, elastic, sync } = train;
  const requested = elastic ? 'shards' : input;
  if (given instanceof ShardedFiles) {
    if (requested !== 'whole') return { kind: 'leased', input: given };
    throw invalid(`The input of job '${name}' is tf.data.shards, which contradicts train.input: 'whole'`, {
      hint: 'For every worker to read all records, use a dataset: input: () => tf.data.tfRecord(files).batch(100)…',
    });
  }
  if (requested === 'whole')
    return { kind: 'whole', line: "every worker reads all of it: train.input is 'whole'" };
  if (requested === undefined && workers === 1)
    return { kind: 'whole', ...(train.checkpoint && fromStart(given)) };
  if (requested === undefined && isOwn)
    return { kind: 'whole', line: 'every worker reads its own input: it depends on the replica' };
  const found = leasable(given, { seed });
  if (requested === 'shards') {
    if (found !== undefined && typeof found !== 'string') return { kind: 'leased', input: found };
    if (elastic) throw notElastic(name, `${WHY_LEASED}: ${found ?? 'it does not read record files'}`);
    throw invalid(
      `The input of job '${name}' cannot be leased: ${found ?? 'it does not read record files'}`,
      { hint: 'Remove train.input for every worker to read all records, or use tf.data.shards.' },
    );
  }
  if (found === undefined) return { kind: 'whole' };
  if (typeof found === 'string')
    return { kind: 'whole', line: `every worker reads all of it; it cannot be leased: ${found}` };
  if (sync) {
    const line = "every worker reads all of it: steps are synchronous; train: { input: 'shards' } leases it";
    return { kind: 'whole', line };
  }
  return { kind: 'leased', input: found, hint: WHOLE };
}
