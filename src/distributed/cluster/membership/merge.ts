/** Merges what a task reports about itself into the state. */
import type { Draft } from './draft.js';
import { compareIdentity, type MapEntry, mergeEntries } from './map.js';
import { type Effect, isPresent, type Member } from './types.js';
import { isWatched } from './watch.js';

/** Merges a report of another process of this task: the higher incarnation stays. */
export function mergeOwnTask(draft: Draft, entry: MapEntry): void {
  if (compareIdentity(entry, draft.own) <= 0) lowerFirst(draft, draft.own, entry.first);
  else exitWith(draft, { kind: 'superseded', by: entry });
}

export function exitWith(draft: Draft, reason: Extract<Effect, { type: 'exit' }>['reason']): void {
  if (draft.over !== undefined) return;
  draft.over = reason;
  draft.effects.push({ type: 'exit', reason });
}

/** A peer may know an earlier incarnation; the epoch then counts from that one. */
export function lowerFirst(draft: Draft, member: Member, first: number): void {
  if (first < member.first) draft.put({ ...member, first });
}

/** Merges a task's report about itself, which also proves that it is alive. */
export function markSeen(draft: Draft, entry: MapEntry): void {
  const known = draft.members.get(entry.task);
  if (known === undefined || compareIdentity(entry, known) > 0) {
    takeNewIncarnation(draft, entry, known);
    return;
  }
  const merged = mergeEntries(known, entry);
  if (merged.left) {
    const member = draft.put({ ...known, ...merged, status: known.status });
    if (known.status !== 'left') markLeft(draft, member);
    return;
  }
  const heard = { lastSeen: draft.now, pulseAt: undefined };
  const member: Member = { ...known, ...merged, status: known.status, ...heard };
  if (known.pendingEvent !== undefined) reportAlive(draft, member);
  else {
    const alive = draft.put({ ...member, status: 'alive' });
    if (known.status === 'dead') draft.effects.push({ type: 'back', member: alive, replaced: false });
    if (known.status === 'suspect') draft.effects.push({ type: 'trusted', member: alive });
  }
}

function takeNewIncarnation(draft: Draft, entry: MapEntry, known: Member | undefined): void {
  const merged = known === undefined ? entry : mergeEntries(known, entry);
  if (known !== undefined) supersede(draft, known, merged);
  const pendingEvent = known === undefined || known.pendingEvent === 'joined' ? 'joined' : 'replaced';
  const member: Member = { ...merged, status: 'suspect', lastSeen: draft.now, pendingEvent };
  if (!member.left) reportAlive(draft, member);
  else if (known === undefined) draft.put({ ...member, status: 'left' });
  else markLeft(draft, member);
}

function supersede(draft: Draft, old: Member, successor: MapEntry): void {
  if (old.pendingEvent === undefined && isPresent(old.status)) {
    draft.lose(old, 'replaced');
  }
  // If the old process still runs, it must learn of its successor.
  if (old.agentAddress !== successor.agentAddress && !old.left && isWatched(draft.base, old.task)) {
    draft.announce({ task: old.task, address: old.agentAddress });
  }
}

function reportAlive(draft: Draft, { pendingEvent, ...rest }: Member): void {
  const member = draft.put({ ...rest, status: 'alive', pendingEvent: undefined });
  draft.effects.push(
    pendingEvent === 'joined' ? { type: 'joined', member } : { type: 'back', member, replaced: true },
  );
}

export function markLeft(draft: Draft, member: Member): void {
  draft.effects.push({ type: 'left', member: draft.put({ ...member, status: 'left' }) });
}
