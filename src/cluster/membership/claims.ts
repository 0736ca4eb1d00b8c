/**
 * What a peer says about a third task. A peer proves by its credentials only who it is itself, so its word about another
 * task is a claim: the address that it names is asked, and what the task there says of itself counts. A claim alone
 * changes no member that is there and ends no process.
 *
 * Two things a peer may report that nobody can be asked about, since nobody is left there. A life that is gone: it is
 * noted as dead when nothing else is known of the task, and a task that hears of a dead predecessor takes a higher
 * incarnation. That a task has left: the chief's word counts, for it removes tasks; that of a ps counts when the task
 * does not answer.
 */

import type { TaskId } from '../spec/task-id.js';
import type { Draft } from './draft.js';
import { compareIdentity, type Entry, type Identity, mergeEntries, sameIdentity } from './map.js';
import { bury, endAs, lowerFirst } from './merge.js';
import { type Claim, isThere, type Member, type View } from './types.js';
import { watchesAll } from './watch.js';

/**
 * How far one incarnation may lie above what is known: some 139 years in milliseconds, as a task that could ask nobody
 * takes its incarnation from its clock. Without a bound one claim could use up the numbers.
 */
const MAX_JUMP = 2 ** 42;
/** Half of the jump that others accept: a task believes no memory of itself further ahead of its clock. */
export const MAX_LEAD = MAX_JUMP / 2;
/**
 * How often a worker's memory of a task's earlier lives is believed. Nobody can be asked about those, and each time every
 * session over a ps is opened again.
 */
const FIRST_MS = 60_000;
/** Checks under way that one peer can cause. */
const MAX_CHECKS_PER_PEER = 256;

export function isPlausible(draft: Draft, { task, incarnation, first }: Entry): boolean {
  const known = draft.members.get(task)?.incarnation ?? 0;
  return first <= incarnation && incarnation <= Math.max(known, draft.self.incarnation) + MAX_JUMP;
}

const keyOf = ({ task, incarnation, nonce }: Identity): string => `${task} ${incarnation} ${nonce}`;

/** Takes in an entry of a peer's map about a task other than that peer. `isChief`: the peer is the chief of the moment. */
export function hearClaim(draft: Draft, { status, ...entry }: View, by: TaskId, isChief: boolean): void {
  if (draft.over !== undefined || !isPlausible(draft, entry)) return;
  const claim: Claim = { entry, opinion: status, by };
  const known = draft.members.get(entry.task);
  const order = known === undefined ? 1 : compareIdentity(entry, known);
  if (known !== undefined && entry.first < known.first) {
    const isTrusted = isChief || watchesAll(draft.base, by);
    if (isTrusted || draft.isDue(`first ${entry.task}`, FIRST_MS)) lowerFirst(draft, known, entry.first);
  }
  if (order > 0) check(draft, claim);
  else if (order === 0 && entry.left && known !== undefined && !known.left) {
    hearOfLeave(draft, claim, draft.members.get(entry.task)!, isChief);
  }
}

function hearOfLeave(draft: Draft, claim: Claim, member: Member, isChief: boolean): void {
  const { chief, self } = draft.base;
  if (member.task === self.task) {
    const authority = chief === undefined || chief === self.task ? undefined : draft.members.get(chief);
    if (isChief) endAs(draft, { kind: 'removed' });
    else if (authority !== undefined)
      draft.announce({ task: authority.task, address: authority.agentAddress });
  } else if (isChief) bury(draft, { ...member, left: true });
  else if (watchesAll(draft.base, claim.by)) {
    if (member.status === 'dead') bury(draft, { ...member, left: true });
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
    // This process holds that address: the claimed life is a predecessor.
    notThere(draft, { ...claim, opinion: 'dead' });
    return;
  }
  draft.claims.set(key, claim);
  const { task, incarnation, nonce } = entry;
  const life = { task, incarnation, nonce };
  draft.effects.push({ type: 'check', to: task, address: entry.agentAddress, claim: life });
}

/** The check of a claim is over. */
export function checked(draft: Draft, life: Identity, answered: boolean): void {
  const key = keyOf(life);
  const claim = draft.claims.get(key);
  draft.claims.delete(key);
  if (claim === undefined) return;
  const known = draft.members.get(life.task);
  const isKnown = known !== undefined && compareIdentity(known, life) >= 0;
  if (!answered) notThere(draft, claim);
  else if (!isKnown)
    draft.effects.push({ type: 'unproven', claim, why: 'another process of it answers there' });
}

function notThere(draft: Draft, claim: Claim): void {
  const { entry } = claim;
  const known = draft.members.get(entry.task);
  if (entry.task === draft.self.task) {
    if (compareIdentity(entry, draft.own) <= 0) return;
    if (claim.opinion !== 'alive' && (!draft.settled || watchesAll(draft.base, claim.by)))
      stepOver(draft, entry);
    else ignore(draft, claim);
  } else if (known !== undefined && sameIdentity(known, entry)) {
    if (entry.left && !known.left) bury(draft, { ...known, left: true });
  } else if (known !== undefined && (isThere(known.status) || compareIdentity(entry, known) < 0)) {
    if (isThere(known.status)) ignore(draft, claim);
  } else noteAsGone(draft, claim, known);
}

function ignore(draft: Draft, claim: Claim): void {
  draft.effects.push({ type: 'unproven', claim, why: 'nobody there answers for it' });
}

/** Nobody listens to a lower incarnation than one that was seen, though its process is gone. */
function stepOver(draft: Draft, { first, incarnation }: Entry): void {
  const { own, settled } = draft;
  // While nobody has taken note of this life, its clock does not count: the predecessor's first does.
  draft.rename({
    ...own,
    first: settled ? Math.min(first, own.first) : first,
    incarnation: incarnation + 1,
  });
  draft.announceToAll();
  for (const contact of draft.base.contacts) draft.announce(contact);
}

/** Notes a life that is gone, so that its successor counts on from it. */
function noteAsGone(draft: Draft, { entry, by }: Claim, known: Member | undefined): void {
  const isTrusted = watchesAll(draft.base, by);
  const isNamed = draft.base.contacts.some(({ task }) => task === entry.task);
  if (known === undefined && !isTrusted && !isNamed) return;
  const left = entry.left && isTrusted;
  const merged = { ...(known === undefined ? entry : mergeEntries(known, entry)), left };
  const greeting = known === undefined || known.greeting === 'joined' ? 'joined' : 'replaced';
  const member: Member = { ...merged, status: 'dead', lastSeen: draft.now, greeting };
  // Nobody here has seen it, so its loss is no news.
  if (!left) draft.put(member);
  else if (known === undefined) draft.put({ ...member, status: 'left' });
  else bury(draft, member);
}
