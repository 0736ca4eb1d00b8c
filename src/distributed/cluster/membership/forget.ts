/**
 * Forgets tasks that the specification does not list, elastic workers, some time after they have died or left. Otherwise
 * the map and the messages would grow with every worker that ever joined.
 *
 * A peer that remembers such a task for longer must not bring it back. So it is forgotten in two steps. First it is
 * retired: it is no longer sent to others and does not count in the digest, but what others still send about it has no
 * effect, since it is known. Much later it is removed. Reports carry for how long a task has been gone, so that a task
 * that learns of it late retires it at the same time as the others.
 *
 * Listed tasks and ps are never forgotten: their successors continue from their incarnations, and the epoch counts them.
 */
import { parseTaskId } from '../spec/task-id.js';
import type { Draft } from './draft.js';
import type { Member, MembershipSettings, View } from './types.js';

/** The two steps must be further apart than tasks differ in when they notice that a task is gone. */
const RETIRE_AFTER = 1 / 5;
/** Above these numbers those that have been gone for longest are retired, or removed, at once. */
export const MOST_REPORTED = 1000;
export const MOST_REMEMBERED = 5000;

const retireAfterMs = ({ forgetAfterMs }: MembershipSettings): number => forgetAfterMs * RETIRE_AFTER;

export function forgetGone(draft: Draft): void {
  const { members, now, settings, base } = draft;
  const gone = [...members.values()].filter(({ goneAt }) => goneAt !== undefined);
  if (gone.length === 0) return;
  const listed = new Set(base.contacts.map(({ task }) => task));
  const ageOf = ({ goneAt = now }: Member) => now - goneAt;
  const passing = gone.filter(({ task }) => !listed.has(task) && parseTaskId(task).job !== 'ps');
  for (const [i, member] of passing.sort((a, b) => ageOf(a) - ageOf(b)).entries()) {
    const ageMs = ageOf(member);
    if (ageMs >= settings.forgetAfterMs || i >= MOST_REMEMBERED) draft.forget(member);
    else if (!member.isRetired && (ageMs >= retireAfterMs(settings) || i >= MOST_REPORTED))
      draft.put({ ...member, isRetired: true });
  }
}

/** Whether a report is about a task that this one has forgotten, or would forget soon. */
export function isForgotten(draft: Draft, { task, goneMs = 0 }: View): boolean {
  if (draft.members.has(task) || goneMs < retireAfterMs(draft.settings)) return false;
  return parseTaskId(task).job !== 'ps' && !draft.base.contacts.some((contact) => contact.task === task);
}
