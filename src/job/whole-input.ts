/** The input of a job as one process sees it that shares it with nobody. */
import type { Dataset } from '../input/dataset/dataset.js';
import { ShardedFiles } from '../input/leases/sharded-files.js';
import type { InputValues, JobDefinition } from './define-job.js';

export function wholeInput({ input }: JobDefinition): InputValues | Dataset<InputValues> | undefined {
  const given = typeof input === 'function' ? input({ index: 0, count: 1 }) : input;
  return given instanceof ShardedFiles ? given.dataset() : given;
}
