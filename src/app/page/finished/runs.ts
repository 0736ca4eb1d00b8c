/** Several runs as one state of the page: whatever has a name gets that of its run too. */
import type { PageState, TaskState } from '../state.js';
import type { RunState } from './directory-run.js';
import type { FoundRun } from './find-runs.js';

export interface NamedRun<T> extends FoundRun {
  readonly content: T;
}

/** Checkpoints of one run are on its own page. */
const MOST_CHECKPOINTS = 2;

export function beside(
  runs: readonly NamedRun<RunState>[],
): Pick<PageState, 'cluster' | 'tasks' | 'runs' | 'events' | 'checkpoints' | 'exports' | 'configuration'> {
  return {
    cluster: `${runs.length} runs`,
    runs: runs.map(({ name, directory, params, state, content: { tasks } }) => {
      const steps = tasks.flatMap(({ step }) => step ?? []);
      const lastStep = steps.length === 0 ? null : Math.max(...steps);
      return { name, directory, params, state, lastStep, loss: lossOf(tasks) };
    }),
    tasks: runs.flatMap(({ name, content: { tasks } }) => {
      const drawn = tasks.filter(({ curves }) => curves.length > 0);
      return drawn.map((task) => ({
        ...task,
        task: drawn.length === 1 ? name : `${name}: ${shortOf(task.task)}`,
      }));
    }),
    events: runs
      .flatMap(({ name, content: { events } }) =>
        events.map((event) => ({ ...event, id: `${name} ${event.id}`, task: name })),
      )
      .sort((a, b) => a.at - b.at),
    checkpoints: runs.flatMap(({ name, content: { checkpoints } }) =>
      checkpoints.slice(0, MOST_CHECKPOINTS).map((one) => ({
        ...one,
        name: `${name}: ${one.name}`,
        attempt: `${name} ${one.attempt}`,
      })),
    ),
    exports: runs
      .flatMap(({ name, content: { exports } }) => exports.map((one) => ({ ...one, task: name })))
      .sort((a, b) => b.at - a.at),
    configuration: runs.map(({ name, directory }) => [name, directory]),
  };
}

/** The last loss of a run: that of its task with the latest point. */
function lossOf(tasks: readonly TaskState[]): number | null {
  const last = tasks
    .flatMap(({ curves }) => curves.filter(({ name }) => name === 'loss'))
    .sort((a, b) => (b.at.at(-1) ?? 0) - (a.at.at(-1) ?? 0))[0];
  return last?.value.at(-1) ?? null;
}

/** `/job:ps/task:0` as `ps 0`. */
const shortOf = (task: string): string => task.replace(/^\/job:(.+)\/task:(\d+)$/, '$1 $2');
