/** Waits for other tasks, with a deadline and progress reports. */
import { abortError } from '../../../base/async/deadline.js';
import { ShoalError } from '../../../base/errors/errors.js';
import type { Member } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';
import type { TaskEvents } from './task-events.js';

/** The tasks that must be alive, or a function that returns the missing ones. */
export type TasksToAwait = readonly TaskId[] | ((members: readonly Member[]) => readonly TaskId[]);

export interface WaitForOptions {
  readonly timeoutMs: number;
  /** Cancels the wait; default: none. */
  readonly signal?: AbortSignal;
  /** Receives the missing tasks on each change and every `progressMs`, but not before `quietMs`. Default: none. */
  readonly onProgress?: (line: string) => void;
  /** The interval of progress reports; default: 5 s. */
  readonly progressMs?: number;
  /** No progress is reported before this time: tasks that start together are not news. Default: 3 s. */
  readonly quietMs?: number;
}

interface WaitingTask {
  readonly task: TaskId;
  readonly events: TaskEvents;
  members(): readonly Member[];
}

function missingOf(whom: TasksToAwait, members: readonly Member[]): readonly TaskId[] {
  if (typeof whom === 'function') return whom(members);
  return whom.filter((task) => !members.some((member) => member.task === task && member.status === 'alive'));
}

function withProblems(tasks: readonly TaskId[], problem: (task: TaskId) => string | undefined): string {
  const lines = tasks.map((task) => {
    // Errors name the task too: `/job:ps/task:0 (agent host:port) refuses connections`.
    const why = problem(task)
      ?.replace(`${task} `, '')
      .replace(/^\((agent [^)]*)\)/, '$1');
    return why === undefined ? task : `${task} (${why})`;
  });
  return lines.join(', ');
}

/** `problem` returns why a task is missing, if known. */
export function waitForMembers(
  place: WaitingTask,
  whom: TasksToAwait,
  { timeoutMs, signal, onProgress, progressMs = 5000, quietMs = 3000 }: WaitForOptions,
  problem: (task: TaskId) => string | undefined,
): Promise<void> {
  const missing = () => missingOf(whom, place.members());
  const named = (tasks: readonly TaskId[]) => withProblems(tasks, problem);
  return new Promise((resolve, reject) => {
    let last = '';
    const started = performance.now();
    const report = (tasks: readonly TaskId[]) => {
      last = tasks.join();
      const seconds = Math.round((performance.now() - started) / 1000);
      onProgress?.(
        `${place.task} waits for ${named(tasks)} · ${seconds} of ${Math.round(timeoutMs / 1000)} s`,
      );
    };
    const settle = (end: () => void) => {
      clearTimeout(deadline);
      clearTimeout(quiet);
      clearInterval(rhythm);
      unsubscribe();
      signal?.removeEventListener('abort', onAbort);
      end();
    };
    const look = (isTime = false) => {
      const tasks = missing();
      if (tasks.length === 0) settle(resolve);
      else if (performance.now() - started < quietMs) return;
      else if (isTime || tasks.join() !== last) report(tasks);
    };
    const onAbort = () => settle(() => reject(abortError(`waiting for ${missing().join(', ')}`, signal!)));
    const unsubscribe = place.events.on('*', (event) => {
      if (event.type !== 'exit') look();
      else
        settle(() =>
          reject(new ShoalError('SHOAL_ABORTED', `${place.task} is no longer a member of the cluster`)),
        );
    });
    const quiet = quietMs > 0 ? setTimeout(() => look(), quietMs + 1) : undefined;
    const rhythm = setInterval(() => look(true), progressMs);
    const deadline = setTimeout(() => {
      const tasks = missing();
      if (tasks.length === 0) return settle(resolve);
      const text = `${place.task} timed out after ${timeoutMs} ms waiting for ${named(tasks)}`;
      const hint = 'start the missing tasks, or check their addresses, the network and the credentials';
      settle(() => reject(new ShoalError('SHOAL_TIMEOUT', text, { hint, task: place.task })));
    }, timeoutMs);
    if (signal?.aborted) onAbort();
    else {
      signal?.addEventListener('abort', onAbort, { once: true });
      look();
    }
  });
}
