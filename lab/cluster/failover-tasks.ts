/** The tasks of the failover cluster. */

export const TASKS = ['ps 0', 'ps 1', 'worker 0', 'worker 1'] as const;
export type TaskName = (typeof TASKS)[number];
export const CHIEF: TaskName = 'worker 0';
export const WORKERS: readonly TaskName[] = ['worker 0', 'worker 1'];

/** A task that stops itself with SIGSTOP at a fault point. */
export interface Hold {
  readonly task: TaskName;
  readonly point: string;
}

export function roleOf(name: TaskName): ['ps' | 'worker', number] {
  const [job, index] = name.split(' ') as ['ps' | 'worker', string];
  return [job, Number(index)];
}
