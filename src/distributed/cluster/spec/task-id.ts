/** Task names such as `/job:ps/task:1`, as a branded string: the key that identifies a task everywhere. */
import { invalid } from '../../../base/errors/errors.js';

export type TaskId = string & { readonly ' brand': 'TaskId' };

export interface TaskName {
  readonly job: string;
  readonly index: number;
}

const JOB = /^[a-zA-Z][a-zA-Z0-9_]{0,63}$/;
const TASK = /^\/job:([a-zA-Z][a-zA-Z0-9_]{0,63})\/task:(0|[1-9]\d{0,8})$/;

export function isJobName(job: string): boolean {
  return JOB.test(job);
}

export function taskId(job: string, index: number): TaskId {
  const id = `/job:${job}/task:${index}`;
  if (!isTaskId(id)) {
    throw invalid(`job ${JSON.stringify(job)} and index ${index} are not a valid task`, {
      hint: 'a job name has letters, digits and _; a task index is an integer from 0',
    });
  }
  return id;
}

export function isTaskId(text: string): text is TaskId {
  return TASK.test(text);
}

export function parseTaskId(text: string): TaskName {
  const match = TASK.exec(text);
  if (match === null)
    throw invalid(`"${text}" is not a task name`, { hint: 'write a task as /job:ps/task:1' });
  return { job: match[1]!, index: Number(match[2]) };
}

/** The name of a task in log lines: `ps 1`. */
export function taskLabel(text: string): string {
  const { job, index } = parseTaskId(text);
  return `${job} ${index}`;
}

/** Orders tasks by job, then by index. */
export function compareTasks(a: TaskId, b: TaskId): number {
  const left = parseTaskId(a);
  const right = parseTaskId(b);
  return left.job === right.job ? left.index - right.index : left.job < right.job ? -1 : 1;
}

/** Whether a task runs training steps, as the chief and the workers do. */
export const trains = (task: TaskId): boolean => !['ps', 'evaluator'].includes(parseTaskId(task).job);
