/**
 * Membership as a pure reducer: `reduce(state, event)` returns the next state and the effects to perform. Events carry
 * the time; nothing here uses a socket or a clock.
 *
 * Two tasks watch each other if one of them is the chief or a ps. Workers do not watch workers, so traffic grows
 * linearly with their number. In a pair the lower-ranked side calls and the other answers. A task learns of tasks that
 * it does not watch from their watchers, and confirms a reported death with a probe.
 */

import type { TaskId } from '../spec/task-id.js';
import { checked, handleClaim, isPlausible } from './claims.js';
import { Draft } from './draft.js';
import { compareIdentity, digestOf, type Entry, epochOf, type Identity, sameIdentity } from './map.js';
import { markSeen, mergeOwnTask } from './merge.js';
import type {
  Contact,
  Event,
  Member,
  Membership,
  MembershipSettings,
  Message,
  Step,
  Via,
  View,
} from './types.js';
import { isCaller, isWatched } from './watch.js';

export interface InitialStateOptions {
  readonly self: Omit<Entry, 'left' | 'beat' | 'step'>;
  readonly chief: TaskId | undefined;
  readonly contacts: readonly Contact[];
  readonly settings: MembershipSettings;
  readonly now: number;
}

/** The state of a task that has not contacted any peer. */
export function initialState({ self, chief, contacts, settings, now }: InitialStateOptions): Membership {
  const { task, incarnation, nonce } = self;
  const entry: Entry = { ...self, left: false, beat: 0, step: null };
  return {
    self: { task, incarnation, nonce },
    chief,
    contacts: contacts.filter(({ address }) => address !== self.agentAddress),
    settings,
    members: new Map([[task, { ...entry, status: 'alive', lastSeen: now, pendingEvent: undefined }]]),
    epoch: epochOf([entry]),
    digest: digestOf([entry]),
    settled: false,
    fence: undefined,
    claims: new Map(),
    now,
    due: new Map(),
    over: undefined,
  };
}

export function reduce(state: Membership, event: Event): Step {
  if (state.over !== undefined) return { state, effects: [] };
  const draft = new Draft(state, event.now);
  if (event.type !== 'start') discountOwnSuspension(draft);
  switch (event.type) {
    case 'start':
      for (const contact of draft.base.contacts) draft.announce(contact);
      break;
    case 'tick':
      tick(draft, event.step);
      break;
    case 'heard':
      heard(draft, event.message, event.via);
      break;
    case 'unreachable':
      unreachable(draft, event);
      break;
    case 'checked':
      checked(draft, event.claim, event.answered);
      break;
    case 'disconnected': {
      const member = draft.members.get(event.peer.task);
      if (member?.status === 'alive' && sameIdentity(member, event.peer)) draft.probe(member);
      break;
    }
    case 'server': {
      // Sessions must reconnect to a server that moved: same process, next incarnation.
      const { own } = draft;
      const incarnation = own.incarnation + 1;
      draft.changeIdentity({ ...own, incarnation, beat: 0, serverAddress: event.serverAddress });
      draft.announceToAll();
      break;
    }
    case 'remove':
      remove(draft, event.task);
      break;
    case 'leave':
      draft.put({ ...draft.own, left: true, status: 'left' });
      draft.announceToAll();
      draft.over = { kind: 'left' };
      break;
  }
  return draft.finish();
}

/** While this process itself was suspended (stopped, swapped out), the silence of peers means nothing. */
function discountOwnSuspension(draft: Draft): void {
  const suspendedMs = draft.now - draft.base.now;
  if (suspendedMs <= draft.settings.suspectAfterMs) return;
  for (const member of [...draft.members.values()]) {
    draft.put({ ...member, lastSeen: Math.min(draft.now, member.lastSeen + suspendedMs) });
  }
  // This task may have been replaced meanwhile.
  draft.announceToAll();
}

function tick(draft: Draft, step: number | null | undefined): void {
  const { settings, now, own } = draft;
  draft.forgetOldAttempts();
  draft.put({ ...own, beat: own.beat + 1, lastSeen: now, step: step === undefined ? own.step : step });
  for (const member of [...draft.members.values()]) {
    if (member.status === 'left' || !isWatched(draft.base, member.task)) continue;
    const silence = now - member.lastSeen;
    if (member.status !== 'dead' && silence >= settings.deadAfterMs) draft.lose(member, 'silent');
    else if (member.status === 'alive' && silence >= settings.suspectAfterMs) draft.suspect(member);
    const { status } = draft.members.get(member.task)!;
    if (status === 'suspect' && draft.isDue(`suspect ${member.task}`, settings.heartbeatMs))
      draft.probe(member);
    if (status === 'dead') {
      if (draft.isDue(member.task, settings.retryMs)) draft.probe(member);
    } else if (isCaller(draft.base, member.task) && draft.isDue(member.task, settings.heartbeatMs)) {
      draft.effects.push({ type: 'heartbeat', to: member.task, address: member.agentAddress });
    }
  }
  for (const contact of draft.base.contacts) {
    const status = draft.members.get(contact.task)?.status;
    // Another process of this task may run at its address in the specification.
    const isOpen = status === undefined || status === 'dead' || contact.task === draft.self.task;
    if (isOpen && draft.isDueWithBackoff(contact.address)) {
      draft.announce(contact);
    }
  }
}

function heard(draft: Draft, message: Message, via: Via): void {
  const { from } = message;
  if (!isPlausible(draft, from)) {
    const claim = { entry: from, opinion: 'alive', by: from.task } as const;
    draft.effects.push({ type: 'unproven', claim, why: 'its incarnation is implausible' });
    return;
  }
  const known = draft.members.get(from.task);
  const superseded = known !== undefined && compareIdentity(from, known) < 0;
  const isChief = from.task === draft.base.chief && !superseded;
  for (const view of message.members) {
    if (view.task !== from.task) handleClaim(draft, view, from.task, isChief);
  }
  if (draft.over !== undefined) return;
  if (from.task === draft.self.task) mergeOwnTask(draft, from);
  else if (superseded) {
    // The peer was replaced and must learn that. A caller learns it from our reply.
    if (via !== 'request') draft.announce({ task: from.task, address: from.agentAddress });
  } else markSeen(draft, from);
  if (draft.over !== undefined) return;
  if (via === 'announce' && !message.members.some((view) => isSuccessor(draft, view))) draft.settled = true;
  hints(draft, message);
  const agrees = message.digest === draft.digest();
  if (via === 'heartbeat' && !agrees && !superseded && isWatched(draft.base, from.task)) {
    draft.announce({ task: from.task, address: from.agentAddress });
  }
}

/** Whether a peer knows a later incarnation of this task: then it has not recorded this one. */
function isSuccessor({ self }: Draft, view: View): boolean {
  return view.task === self.task && compareIdentity(view, self) > 0;
}

/** Probes members that this task does not watch and about which a watcher disagrees. */
function hints(draft: Draft, { from, lost }: Message): void {
  if (!isWatched(draft.base, from.task)) return;
  for (const member of draft.members.values()) {
    if (member.task === draft.self.task || member.status === 'left' || isWatched(draft.base, member.task))
      continue;
    const isLost = lost.some((identity) => sameIdentity(identity, member));
    if (isLost === (member.status === 'dead') || !draft.isDue(member.task, draft.settings.retryMs)) continue;
    if (isLost) draft.put({ ...member, status: 'suspect' });
    draft.probe(member);
  }
}

function unreachable(draft: Draft, event: Extract<Event, { type: 'unreachable' }>): void {
  const { peer, failure, fresh } = event;
  const member = draft.members.get(peer.task);
  if (member === undefined || !sameIdentity(member, peer) || peer.task === draft.self.task) return;
  if (member.status === 'dead' || member.status === 'left') return;
  if (failure === 'refused') draft.lose(member, 'refused');
  else if (!isWatched(draft.base, member.task)) {
    if (fresh && member.status === 'suspect') draft.lose(member, 'confirmed');
  } else if (failure === 'reset' && !fresh) draft.probe(member);
  // A dying process may accept one more call and drop it. It refuses the next probe: see `tick`.
  else if (failure === 'reset' && member.status === 'alive') draft.markSuspect(member);
}

function remove(draft: Draft, task: TaskId): void {
  const member = draft.members.get(task);
  if (member === undefined || member.status === 'left' || task === draft.self.task) return;
  const gone = draft.put({ ...member, left: true, status: 'left' });
  draft.effects.push({ type: 'left', member: gone });
  draft.announceToAll();
  draft.announce({ task, address: member.agentAddress });
}

/** The message to a peer; `complete` includes all members. A caller that was replaced receives its successor. */
export function messageTo(state: Membership, complete: boolean, caller?: Identity): Message {
  const { members, self, digest } = state;
  const { status: _, ...from } = viewOf(members.get(self.task)!);
  const lost = [...members.values()]
    .filter(({ status }) => status === 'dead')
    .map(({ task, incarnation, nonce }) => ({ task, incarnation, nonce }));
  const successor = caller === undefined ? undefined : members.get(caller.task);
  const isReplaced = successor !== undefined && (compareIdentity(successor, caller!) > 0 || successor.left);
  const included = complete ? [...members.values()] : isReplaced ? [successor] : [];
  return { from, digest, lost, members: included.map(viewOf) };
}

/** A member as it is sent to others. */
export function viewOf({ lastSeen: _lastSeen, pendingEvent: _pendingEvent, ...view }: Member): View {
  return view;
}

/** Part of every refusal of a process that was replaced. */
export const REPLACED = 'has been replaced';

export interface Verdict {
  readonly state: Membership;
  /** Why the order is refused; undefined when it is accepted. */
  readonly refused: string | undefined;
}

/**
 * Fencing: only orders of the highest chief incarnation seen, in the map or in an order, are accepted. A chief that was
 * replaced while it was suspended cannot undo the work of its successor.
 */
export function judgeOrder(state: Membership, from: Identity): Verdict {
  const refused = refusalOfChief(state, from);
  if (refused !== undefined) return { state, refused };
  const { task, incarnation, nonce } = from;
  return { state: { ...state, fence: { task, incarnation, nonce } }, refused: undefined };
}

/** Why an order of this sender would be refused. Does not raise the fence. */
export function refusalOfChief(state: Membership, from: Identity): string | undefined {
  if (from.task !== state.chief) return `${from.task} is not the chief (${state.chief ?? 'none'})`;
  const known = state.members.get(from.task);
  const highest = [known, state.fence].reduce<Identity | undefined>(
    (best, next) =>
      next !== undefined && (best === undefined || compareIdentity(next, best) > 0) ? next : best,
    undefined,
  );
  if (highest !== undefined && compareIdentity(from, highest) < 0) {
    return `${from.task}, incarnation ${from.incarnation}, ${REPLACED} by incarnation ${highest.incarnation}`;
  }
  return undefined;
}
