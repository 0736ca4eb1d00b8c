/**
 * Claims: what a peer reports about a third task. Credentials prove only the peer's own identity, so a claim is checked
 * by probing the address in it, and what the task there reports about itself decides. A claim alone changes no member
 * that is alive and ends no process.
 *
 * Two kinds of claims cannot be checked, since no process is left to probe. A dead incarnation: it is recorded as dead
 * when nothing else is known of the task, and a task that learns of a dead predecessor takes a higher incarnation. A
 * task that left: the chief is trusted, since it removes tasks; a ps is trusted when the task does not answer.
 */

import type { TaskId } from '../spec/task-id.js';
import type { Draft } from './draft.js';
import { isForgotten } from './forget.js';
import { compareIdentity, type Identity, type MapEntry, mergeEntries, sameIdentity } from './map.js';
import { exitWith, lowerFirst, markLeft } from './merge.js';
import { type Claim, isPresent, type Member, type View } from './types.js';
import { watchesAll } from './watch.js';

/**
 * How far an incarnation may exceed the known ones: about 139 years in milliseconds, since a task that reaches no peer
 * takes its incarnation from its clock. Without a bound one claim could exhaust the integers.
 */
const MAX_JUMP = 2 ** 42;
/** Half of the jump that peers accept: a task ignores reports of its own incarnations further ahead of its clock. */
export const MAX_LEAD = MAX_JUMP / 2;
/**
 * How often a worker's claim about a task's earlier incarnations is accepted. It cannot be checked, and each one makes
 * all sessions over a ps reopen.
 */
const FIRST_MS = 60_000;
/** Concurrent checks that one peer can cause. */
const MAX_CHECKS_PER_PEER = 256;

export function isPlausible(draft: Draft, { task, incarnation, first }: MapEntry): boolean {
  const known = draft.members.get(task)?.incarnation ?? 0;
  return first <= incarnation && incarnation <= Math.max(known, draft.self.incarnation) + MAX_JUMP;
}

const keyOf = ({ task, incarnation, nonce }: Identity): string => `${task} ${incarnation} ${nonce}`;

/** Handles an entry of a peer's map about another task. `isChief`: the peer is the current chief. */
export function handleClaim(draft: Draft, view: View, by: TaskId, isChief: boolean): void {
  const { status, goneMs, ...entry } = view;
  if (draft.over !== undefined || !isPlausible(draft, entry) || isForgotten(draft, view)) return;
  const claim: Claim = { entry, opinion: status, goneMs, by };
  const known = draft.members.get(entry.task);
  const order = known === undefined ? 1 : compareIdentity(entry, known);
  if (known !== undefined && entry.first < known.first) {
    const isTrusted = isChief || watchesAll(draft.base, by);
    if (isTrusted || draft.isDue(`first ${entry.task}`, FIRST_MS)) lowerFirst(draft, known, entry.first);
  }
  if (order > 0) check(draft, claim);
  else if (order === 0 && entry.left && known !== undefined && !known.left) {
    handleLeaveClaim(draft, claim, draft.members.get(entry.task)!, isChief);
  }
}

function handleLeaveClaim(draft: Draft, claim: Claim, member: Member, isChief: boolean): void {
  const { chief, self } = draft.base;
  if (member.task === self.task) {
    const authority = chief === undefined || chief === self.task ? undefined : draft.members.get(chief);
    if (isChief) exitWith(draft, { kind: 'removed' });
    else if (authority !== undefined)
      draft.announce({ task: authority.task, address: authority.agentAddress });
  } else if (isChief) markLeft(draft, { ...member, left: true });
  else if (watchesAll(draft.base, claim.by)) {
    if (member.status === 'dead') markLeft(draft, { ...member, left: true });
    else check(draft, claim);
  }
}

function check(draft: Draft, claim: Claim): void {
  const { entry, by } = claim;
  const key = keyOf(entry);
  const pending = draft.claims.get(key);
  if (pending !== undefined) {
    if (watchesAll(draft.base, by)) draft.claims.set(key, claim);
    return;
  }
  const fromPeer = [...draft.claims.values()].filter((other) => other.by === by).length;
  if (fromPeer >= MAX_CHECKS_PER_PEER) return;
  if (!draft.isDue(`check ${entry.task} by ${by}`, draft.settings.retryMs)) return;
  if (entry.task === draft.self.task && entry.agentAddress === draft.own.agentAddress) {
    // This process holds that address: the claimed incarnation is a predecessor.
    handleUnconfirmed(draft, { ...claim, opinion: 'dead' });
    return;
  }
  draft.claims.set(key, claim);
  const { task, incarnation, nonce } = entry;
  const identity = { task, incarnation, nonce };
  draft.effects.push({ type: 'check', to: task, address: entry.agentAddress, claim: identity });
}

/** Handles the outcome of a check. */
export function claimChecked(draft: Draft, claimed: Identity, answered: boolean): void {
  const key = keyOf(claimed);
  const claim = draft.claims.get(key);
  draft.claims.delete(key);
  if (claim === undefined) return;
  const known = draft.members.get(claimed.task);
  const isKnown = known !== undefined && compareIdentity(known, claimed) >= 0;
  if (!answered) handleUnconfirmed(draft, claim);
  else if (!isKnown)
    draft.effects.push({ type: 'unproven', claim, why: 'another incarnation answers at that address' });
}

function handleUnconfirmed(draft: Draft, claim: Claim): void {
  const { entry } = claim;
  const known = draft.members.get(entry.task);
  if (entry.task === draft.self.task) {
    if (compareIdentity(entry, draft.own) <= 0) return;
    if (claim.opinion !== 'alive' && (!draft.settled || watchesAll(draft.base, claim.by)))
      raiseIncarnation(draft, entry);
    else ignore(draft, claim);
  } else if (known !== undefined && sameIdentity(known, entry)) {
    if (entry.left && !known.left) markLeft(draft, { ...known, left: true });
  } else if (known !== undefined && (isPresent(known.status) || compareIdentity(entry, known) < 0)) {
    if (isPresent(known.status)) ignore(draft, claim);
  } else recordDead(draft, claim, known);
}

function ignore(draft: Draft, claim: Claim): void {
  draft.effects.push({ type: 'unproven', claim, why: 'the task does not answer at that address' });
}

/** Takes a higher incarnation than a dead predecessor: peers ignore lower ones. */
function raiseIncarnation(draft: Draft, { first, incarnation }: MapEntry): void {
  const { own, settled } = draft;
  // Until a peer has recorded this incarnation, its clock value is replaced by the predecessor's `first`.
  draft.changeIdentity({
    ...own,
    first: settled ? Math.min(first, own.first) : first,
    incarnation: incarnation + 1,
  });
  draft.announceToAll();
  for (const contact of draft.base.contacts) draft.announce(contact);
}

/** Records a dead incarnation, so that its successor continues from it. */
function recordDead(draft: Draft, { entry, by, goneMs = 0 }: Claim, known: Member | undefined): void {
  const isTrusted = watchesAll(draft.base, by);
  const isNamed = draft.base.contacts.some(({ task }) => task === entry.task);
  if (known === undefined && !isTrusted && !isNamed) return;
  const left = entry.left && isTrusted;
  const merged = { ...(known === undefined ? entry : mergeEntries(known, entry)), left };
  const pendingEvent = known === undefined || known.pendingEvent === 'joined' ? 'joined' : 'replaced';
  const seen = { lastSeen: draft.now, goneAt: draft.now - goneMs };
  const member: Member = { ...merged, status: 'dead', ...seen, pendingEvent };
  // This task never saw it alive, so no loss is reported.
  if (!left) draft.put(member);
  else if (known === undefined) draft.put({ ...member, status: 'left' });
  else markLeft(draft, member);
}
