/** How what a task says of itself changes the picture of whoever hears it. */
import type { Draft } from './draft.js';
import { compareIdentity, type Entry, mergeEntries } from './map.js';
import { type Effect, isThere, type Member } from './types.js';
import { isWatched } from './watch.js';

/** Takes in what another process of this task says of itself: the higher incarnation stays. */
export function meetOwnTask(draft: Draft, entry: Entry): void {
  if (compareIdentity(entry, draft.own) <= 0) lowerFirst(draft, draft.own, entry.first);
  else endAs(draft, { kind: 'superseded', by: entry });
}

export function endAs(draft: Draft, reason: Extract<Effect, { type: 'exit' }>['reason']): void {
  if (draft.over !== undefined) return;
  draft.over = reason;
  draft.effects.push({ type: 'exit', reason });
}

/** Any peer may remember an earlier life; the epoch then counts from there. */
export function lowerFirst(draft: Draft, member: Member, first: number): void {
  if (first < member.first) draft.put({ ...member, first });
}

/** Takes in what a task said of itself: it is alive, whoever thought otherwise. */
export function markSeen(draft: Draft, entry: Entry): void {
  const known = draft.members.get(entry.task);
  if (known === undefined || compareIdentity(entry, known) > 0) {
    takeNewLife(draft, entry, known);
    return;
  }
  const merged = mergeEntries(known, entry);
  if (merged.left) {
    const member = draft.put({ ...known, ...merged, status: known.status });
    if (known.status !== 'left') bury(draft, member);
    return;
  }
  const member: Member = { ...known, ...merged, status: known.status, lastSeen: draft.now };
  if (known.greeting !== undefined) greet(draft, member);
  else {
    const alive = draft.put({ ...member, status: 'alive' });
    if (known.status === 'dead') draft.effects.push({ type: 'back', member: alive, replaced: false });
    if (known.status === 'suspect') draft.effects.push({ type: 'trusted', member: alive });
  }
}

function takeNewLife(draft: Draft, entry: Entry, known: Member | undefined): void {
  const merged = known === undefined ? entry : mergeEntries(known, entry);
  if (known !== undefined) supersede(draft, known, merged);
  const greeting = known === undefined || known.greeting === 'joined' ? 'joined' : 'replaced';
  const member: Member = { ...merged, status: 'suspect', lastSeen: draft.now, greeting };
  if (!member.left) greet(draft, member);
  else if (known === undefined) draft.put({ ...member, status: 'left' });
  else bury(draft, member);
}

function supersede(draft: Draft, old: Member, successor: Entry): void {
  if (old.greeting === undefined && isThere(old.status)) {
    draft.lose(old, 'replaced');
  }
  // If the old life still runs somewhere, it is a zombie: the sooner it hears of its successor, the better.
  if (old.agentAddress !== successor.agentAddress && !old.left && isWatched(draft.base, old.task)) {
    draft.announce({ task: old.task, address: old.agentAddress });
  }
}

function greet(draft: Draft, { greeting, ...rest }: Member): void {
  const member = draft.put({ ...rest, status: 'alive', greeting: undefined });
  draft.effects.push(
    greeting === 'joined' ? { type: 'joined', member } : { type: 'back', member, replaced: true },
  );
}

export function bury(draft: Draft, member: Member): void {
  draft.effects.push({ type: 'left', member: draft.put({ ...member, status: 'left' }) });
}
