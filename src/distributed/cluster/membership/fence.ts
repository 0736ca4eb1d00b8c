/**
 * Fencing: work is accepted only from the highest incarnation of a task that is known here, from the member map or from
 * earlier work. A process that was replaced while it was suspended cannot undo what its successor has done. An accepted
 * request raises the fence, since it may arrive before the announcement of its sender.
 */
import type { TaskId } from '../spec/task-id.js';
import { compareIdentity, type Identity } from './map.js';
import type { Membership } from './types.js';

/** Part of every refusal of a process that was replaced. */
export const REPLACED = 'has been replaced';

export interface FenceVerdict {
  readonly state: Membership;
  /** Why the work is refused; undefined when it is accepted. */
  readonly refused: string | undefined;
}

/** Whether `latest` is a later process of the same task. A process may raise its own incarnation. */
export function isReplacedBy(earlier: Identity, latest: Identity): boolean {
  return (
    earlier.task === latest.task && earlier.nonce !== latest.nonce && compareIdentity(earlier, latest) < 0
  );
}

/** Judges work that any task may ask for, and raises the fence if it is accepted. */
export function admit(state: Membership, from: Identity): FenceVerdict {
  const refused = refusalOf(state, from);
  return refused === undefined ? { state: raise(state, from), refused } : { state, refused };
}

/** Judges work that only the chief may ask for, and raises the fence if it is accepted. */
export function admitOrder(state: Membership, from: Identity): FenceVerdict {
  const refused = refusalOfChief(state, from);
  return refused === undefined ? { state: raise(state, from), refused } : { state, refused };
}

/** Why work of this process would be refused. Does not raise the fence. */
export function refusalOf({ members, fences }: Membership, from: Identity): string | undefined {
  const member = members.get(from.task);
  const fence = fences.get(from.task);
  // What a process announces replaces what it had claimed before: a process may begin with a higher incarnation.
  for (const known of fence?.nonce === member?.nonce ? [member] : [member, fence]) {
    if (known === undefined || !isReplacedBy(from, known)) continue;
    return `${from.task}, incarnation ${from.incarnation}, ${REPLACED} by incarnation ${known.incarnation}`;
  }
  return undefined;
}

/** Why an order of this process would be refused. Does not raise the fence. */
export function refusalOfChief(state: Membership, from: Identity): string | undefined {
  if (from.task !== state.chief) return `${from.task} is not the chief (${state.chief ?? 'none'})`;
  return refusalOf(state, from);
}

function raise(state: Membership, { task, incarnation, nonce }: Identity): Membership {
  const { members, fences, contacts, chief } = state;
  const fence = fences.get(task);
  if (fence?.incarnation === incarnation && fence.nonce === nonce) return state;
  const known = members.get(task);
  // Only tasks that are known have a fence: their number is bounded.
  const isKnown = (id: TaskId) =>
    members.has(id) || id === chief || contacts.some((contact) => contact.task === id);
  if (!isKnown(task) || known?.nonce === nonce) return state;
  const raised = new Map<TaskId, Identity>([...fences].filter(([id]) => isKnown(id)));
  raised.set(task, { task, incarnation, nonce });
  return { ...state, fences: raised };
}
