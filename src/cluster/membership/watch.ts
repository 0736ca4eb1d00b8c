/** Which tasks watch each other, and which of the two makes the calls. */

import { compareTasks, parseTaskId, type TaskId } from '../spec/task-id.js';
import type { Membership } from './types.js';

type Roles = Pick<Membership, 'self' | 'chief'>;

function rank({ chief }: Roles, task: TaskId): number {
  if (task === chief) return 0;
  return parseTaskId(task).job === 'ps' ? 1 : 2;
}

/** Whether a task is the chief or a ps: these watch every other task. */
export function watchesAll(roles: Roles, task: TaskId): boolean {
  return rank(roles, task) < 2;
}

/** Whether this task and the other exchange heartbeats. */
export function isWatched(roles: Roles, other: TaskId): boolean {
  return other !== roles.self.task && Math.min(rank(roles, roles.self.task), rank(roles, other)) < 2;
}

/** Whether this task calls the other. Exactly one of the two does. */
export function isCaller(roles: Roles, other: TaskId): boolean {
  const [mine, theirs] = [rank(roles, roles.self.task), rank(roles, other)];
  return mine === theirs ? compareTasks(roles.self.task, other) > 0 : mine > theirs;
}
