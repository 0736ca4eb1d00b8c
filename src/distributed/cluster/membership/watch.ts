/** Which tasks watch each other, and which of the two makes the calls. */

import { compareTasks, parseTaskId, type TaskId } from '../spec/task-id.js';
import { type Contact, isPresent, type Membership } from './types.js';

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

/** The tasks that watch this one, as far as they are known, with those of the specification that have not answered. */
export function watchersOf(state: Membership): readonly Contact[] {
  const members = [...state.members.values()]
    .filter(({ task, status }) => isPresent(status) && isWatched(state, task))
    .map(({ task, agentAddress }) => ({ task, address: agentAddress }));
  const unknown = state.contacts.filter(({ task }) => !state.members.has(task) && isWatched(state, task));
  return [...members, ...unknown];
}
