/** The complete input of a job, for a process that does not share it with workers. */
import type { Dataset } from '../input/dataset/dataset.js';
import { ShardedFiles } from '../input/leases/sharded-files.js';
import type { InputValues, JobDefinition } from './define-job.js';

export function unshardedInput({
  input,
  params = {},
}: JobDefinition): InputValues | Dataset<InputValues> | undefined {
  const given = typeof input === 'function' ? input({ index: 0, count: 1, params }) : input;
  return given instanceof ShardedFiles ? given.dataset() : given;
}
