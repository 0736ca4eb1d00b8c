/**
 * Membership as a pure reducer: `reduce(state, event)` returns the next state and the effects to perform. Events carry
 * the time; nothing here uses a socket or a clock.
 *
 * Two tasks watch each other if one of them is the chief or a ps. Workers do not watch workers, so traffic grows
 * linearly with their number. In a pair the lower-ranked side calls and the other answers. A task learns of tasks that
 * it does not watch from their watchers, and confirms a reported death with a probe.
 */

import type { TaskId } from '../spec/task-id.js';
import { claimChecked, handleClaim, isPlausible } from './claims.js';
import { Draft } from './draft.js';
import { forgetGone } from './forget.js';
import { compareIdentity, epochOf, type Identity, type MapEntry, mapDigest, sameIdentity } from './map.js';
import { markSeen, mergeOwnTask } from './merge.js';
import {
  type Contact,
  type Event,
  isPresent,
  type LostWhy,
  type Member,
  type Membership,
  type MembershipMessage,
  type MembershipSettings,
  type Transition,
  type Via,
  type View,
} from './types.js';
import { isCaller, isWatched } from './watch.js';

export interface InitialStateOptions {
  readonly self: Omit<MapEntry, 'left' | 'beat' | 'step'>;
  readonly chief: TaskId | undefined;
  readonly contacts: readonly Contact[];
  readonly settings: MembershipSettings;
  readonly now: number;
}

/** The state of a task that has not contacted any peer. */
export function initialState({ self, chief, contacts, settings, now }: InitialStateOptions): Membership {
  const { task, incarnation, nonce } = self;
  const entry: MapEntry = { ...self, left: false, beat: 0, step: null };
  return {
    self: { task, incarnation, nonce },
    chief,
    contacts: contacts.filter(({ address }) => address !== self.agentAddress),
    settings,
    members: new Map([[task, { ...entry, status: 'alive', lastSeen: now, pendingEvent: undefined }]]),
    epoch: epochOf([entry]),
    digest: mapDigest([entry]),
    settled: false,
    fences: new Map(),
    claims: new Map(),
    now,
    due: new Map(),
    over: undefined,
  };
}

export function reduceMembership(state: Membership, event: Event): Transition {
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
      claimChecked(draft, event.claim, event.answered);
      break;
    case 'disconnected': {
      const member = draft.members.get(event.peer.task);
      if (member?.status === 'alive' && sameIdentity(member, event.peer)) draft.probe(member);
      break;
    }
    case 'pulse': {
      const member = draft.members.get(event.from.task);
      // Only the main thread shows that a task is back.
      if (member !== undefined && sameIdentity(member, event.from) && isPresent(member.status))
        draft.put({ ...member, pulseAt: draft.now });
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
    const { lastSeen, pulseAt } = member;
    const later = (at: number) => Math.min(draft.now, at + suspendedMs);
    draft.put({ ...member, lastSeen: later(lastSeen), pulseAt: pulseAt && later(pulseAt) });
  }
  // This task may have been replaced meanwhile.
  draft.announceToAll();
}

function tick(draft: Draft, step: number | null | undefined): void {
  const { settings, now, own } = draft;
  draft.forgetOldAttempts();
  forgetGone(draft);
  draft.put({ ...own, beat: own.beat + 1, lastSeen: now, step: step === undefined ? own.step : step });
  for (const member of [...draft.members.values()]) {
    if (member.status === 'left' || !isWatched(draft.base, member.task)) continue;
    const silence = now - member.lastSeen;
    const why = member.status === 'dead' ? undefined : whyLost(member, settings, now);
    if (why !== undefined) draft.lose(member, why);
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

function heard(draft: Draft, message: MembershipMessage, via: Via): void {
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
  hints(draft, message, via);
  const agrees = message.digest === draft.digest();
  if (via === 'heartbeat' && !agrees && !superseded && isWatched(draft.base, from.task)) {
    draft.announce({ task: from.task, address: from.agentAddress });
  }
}

/** Whether a peer knows a later incarnation of this task: then it has not recorded this one. */
function isSuccessor({ self }: Draft, view: View): boolean {
  return view.task === self.task && compareIdentity(view, self) > 0;
}

/** Probes members that this task does not watch and about which a watcher disagrees, or which it does not know. */
function hints(draft: Draft, { from, lost, members }: MembershipMessage, via: Via): void {
  if (!isWatched(draft.base, from.task)) return;
  // The watcher may have forgotten a task while this one was suspended. A new member may not be known to it yet.
  const known = via === 'announce' ? new Set(members.map(({ task }) => task)) : undefined;
  for (const member of draft.members.values()) {
    if (member.task === draft.self.task || member.status === 'left' || isWatched(draft.base, member.task))
      continue;
    const isOld = draft.now - member.lastSeen >= draft.settings.deadAfterMs;
    const isUnknown = isOld && known?.has(member.task) === false;
    const isLost = isUnknown || lost.some((identity) => sameIdentity(identity, member));
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

/** Whether another thread of the process has reported lately that its main thread is blocked. */
function isPulsing({ pulseAt }: Member, { deadAfterMs }: MembershipSettings, now: number): boolean {
  return pulseAt !== undefined && now - pulseAt < deadAfterMs;
}

function whyLost(member: Member, settings: MembershipSettings, now: number): LostWhy | undefined {
  const silence = now - member.lastSeen;
  if (silence < settings.deadAfterMs) return undefined;
  if (!isPulsing(member, settings, now)) return 'silent';
  return silence < settings.maxBlockedMs ? undefined : 'blocked';
}

/** How long the main thread of a busy task has been blocked; undefined for any other task. */
export function blockedMs(member: Member, settings: MembershipSettings, now: number): number | undefined {
  return isPresent(member.status) && isPulsing(member, settings, now) ? now - member.lastSeen : undefined;
}

/** The message to a peer; `complete` includes all members. A caller that was replaced receives its successor. */
export function messageTo(state: Membership, complete: boolean, caller?: Identity): MembershipMessage {
  const { members, self, digest } = state;
  const { status: _, ...from } = viewOf(members.get(self.task)!);
  const lost = [...members.values()]
    .filter(({ status, isRetired }) => status === 'dead' && !isRetired)
    .map(({ task, incarnation, nonce }) => ({ task, incarnation, nonce }));
  const successor = caller === undefined ? undefined : members.get(caller.task);
  const isReplaced = successor !== undefined && (compareIdentity(successor, caller!) > 0 || successor.left);
  const reported = [...members.values()].filter(({ isRetired }) => !isRetired);
  const included = complete ? reported : isReplaced ? [successor] : [];
  const views = included.map((member): View => {
    const { goneAt } = member;
    return { ...viewOf(member), ...(goneAt !== undefined && { goneMs: Math.round(state.now - goneAt) }) };
  });
  return { from, digest, lost, members: views };
}

/** A member as it is sent to others. */
export function viewOf(member: Member): View {
  const { lastSeen: _1, pendingEvent: _2, pulseAt: _3, goneAt: _4, isRetired: _5, ...view } = member;
  return view;
}
