/** Which tasks keep an eye on each other, and who of two makes the call. */

import { compareTasks, parseTaskId, type TaskId } from '../spec/task-id.js';
import type { Membership } from './types.js';

type Cast = Pick<Membership, 'self' | 'chief'>;

function rank({ chief }: Cast, task: TaskId): number {
  if (task === chief) return 0;
  return parseTaskId(task).job === 'ps' ? 1 : 2;
}

/** Whether a task is the chief or a ps: these watch every other task. */
export function watchesAll(cast: Cast, task: TaskId): boolean {
  return rank(cast, task) < 2;
}

/** Whether this task and the other exchange heartbeats. */
export function isWatched(cast: Cast, other: TaskId): boolean {
  return other !== cast.self.task && Math.min(rank(cast, cast.self.task), rank(cast, other)) < 2;
}

/** Whether it is this task that calls the other. Exactly one of the two does. */
export function makesTheCall(cast: Cast, other: TaskId): boolean {
  const [mine, theirs] = [rank(cast, cast.self.task), rank(cast, other)];
  return mine === theirs ? compareTasks(cast.self.task, other) > 0 : mine > theirs;
}
