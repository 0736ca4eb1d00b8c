/**
 * Whether the workers of a job share the records of its input or each reads all of them. Files are shared unless the job
 * says otherwise, where there is more than one worker; whatever is done, a line says so.
 */
import { invalid } from '../errors/errors.js';
import type { Dataset } from '../input/dataset/dataset.js';
import { leasable } from '../input/leases/leased-dataset.js';
import { type LeasableInput, ShardedFiles } from '../input/leases/sharded-files.js';
import type { InputValues, JobDefinition } from './define-job.js';

export type Leasing =
  | { readonly kind: 'leased'; readonly input: LeasableInput<InputValues>; readonly hint?: string }
  | { readonly kind: 'whole'; readonly line?: string };

const WHOLE = "train: { input: 'whole' } lets every worker read all";

export function leasingOf(
  { name, train, seed }: JobDefinition,
  given: Dataset<InputValues> | ShardedFiles<InputValues>,
  /** `isOwn`: the job has looked at which worker it is for. */
  { workers, isOwn }: { readonly workers: number; readonly isOwn: boolean },
): Leasing {
  const { input: wanted, sync } = train;
  if (given instanceof ShardedFiles) {
    if (wanted !== 'whole') return { kind: 'leased', input: given };
    throw invalid(`Job '${name}' gives shards as its input, and says that it is 'whole'`, {
      hint: 'Give a dataset for every worker to read all: input: () => tf.data.tfRecord(files).batch(100)…',
    });
  }
  if (wanted === 'whole') return { kind: 'whole', line: 'every worker reads all of it, as the job says' };
  if (wanted === undefined && workers === 1) return { kind: 'whole' };
  if (wanted === undefined && isOwn)
    return { kind: 'whole', line: 'every worker reads what the job has for it' };
  const found = leasable(given, { seed });
  if (wanted === 'shards') {
    if (found !== undefined && typeof found !== 'string') return { kind: 'leased', input: found };
    throw invalid(
      `The input of job '${name}' can't be leased: ${found ?? 'it is not made of files of records'}`,
      { hint: 'Leave train.input out for every worker to read all, or use tf.data.shards.' },
    );
  }
  if (found === undefined) return { kind: 'whole' };
  if (typeof found === 'string')
    return { kind: 'whole', line: `every worker reads all of it; it can't be leased: ${found}` };
  if (sync) {
    const line = "every worker reads all of it: steps are synchronous; train: { input: 'shards' } leases it";
    return { kind: 'whole', line };
  }
  return { kind: 'leased', input: found, hint: WHOLE };
}
