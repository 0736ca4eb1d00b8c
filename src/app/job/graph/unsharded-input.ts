/** The complete input of a job, for a process that does not share it with workers. */
import type { Dataset } from '../../../training/input/dataset/dataset.js';
import { ShardedFiles } from '../../../training/input/leases/sharded-files.js';
import type { InputValues, JobDefinition } from '../definition/define-job.js';

export function unshardedInput({
  input,
  params = {},
}: JobDefinition): InputValues | Dataset<InputValues> | undefined {
  const given = typeof input === 'function' ? input({ index: 0, count: 1, params }) : input;
  return given instanceof ShardedFiles ? given.dataset() : given;
}
