/**
 * How a launcher tells a task that is started again which workers have finished: no other task may know it, as when the
 * ps were started again too.
 */
import { type TaskId, taskId } from '../../../distributed/cluster/spec/task-id.js';

const VARIABLE = 'SHOAL_FINISHED_WORKERS';

type Environment = Readonly<Record<string, string | undefined>>;

/** For the environment of a task; `indices`: those of the workers. */
export const finishedWorkersVariable = (indices: readonly number[]): Environment => ({
  [VARIABLE]: indices.length === 0 ? undefined : indices.join(','),
});

export const finishedWorkersOf = ({ [VARIABLE]: indices = '' }: Environment): readonly TaskId[] =>
  [...indices.matchAll(/\d+/g)].map(([index]) => taskId('worker', Number(index)));
