/**
 * Membership as a pure reducer: `reduce(state, event)` gives the next state and the effects to carry out.
 * Time comes in with the events; nothing here touches a socket or a clock.
 *
 * Who watches whom: every pair in which one is the chief or a ps (a worker does not watch a worker, so the
 * traffic of a large cluster grows with its workers, not with their square). In a pair the humbler side
 * calls and the other answers. What a task does not watch itself it hears of from those who do, and checks
 * with a probe before it believes a death.
 */

import type { TaskId } from '../spec/task-id.js';
import { checked, hearClaim, isPlausible } from './claims.js';
import { Draft } from './draft.js';
import { compareIdentity, digestOf, type Entry, epochOf, type Identity, sameIdentity } from './map.js';
import { markSeen, meetOwnTask } from './merge.js';
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
import { isWatched, makesTheCall } from './watch.js';

export interface BirthOptions {
  readonly self: Omit<Entry, 'left' | 'beat' | 'step'>;
  readonly chief: TaskId | undefined;
  readonly contacts: readonly Contact[];
  readonly settings: MembershipSettings;
  readonly now: number;
}

/** The state of a task that has not spoken to anybody. */
export function initialState({ self, chief, contacts, settings, now }: BirthOptions): Membership {
  const { task, incarnation, nonce } = self;
  const entry: Entry = { ...self, left: false, beat: 0, step: null };
  return {
    self: { task, incarnation, nonce },
    chief,
    contacts: contacts.filter(({ address }) => address !== self.agentAddress),
    settings,
    members: new Map([[task, { ...entry, status: 'alive', lastSeen: now, greeting: undefined }]]),
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
  if (event.type !== 'start') forgiveOwnSleep(draft);
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
      // A server elsewhere is another life as far as sessions are concerned: same process, next incarnation.
      const { own } = draft;
      const incarnation = own.incarnation + 1;
      draft.rename({ ...own, incarnation, beat: 0, serverAddress: event.serverAddress });
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

/** A silence through which this process itself slept (stopped, swapped out) proves nothing about the others. */
function forgiveOwnSleep(draft: Draft): void {
  const slept = draft.now - draft.base.now;
  if (slept <= draft.settings.suspectAfterMs) return;
  for (const member of [...draft.members.values()]) {
    draft.put({ ...member, lastSeen: Math.min(draft.now, member.lastSeen + slept) });
  }
  // Much may have happened meanwhile: this task may have been replaced.
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
    } else if (makesTheCall(draft.base, member.task) && draft.isDue(member.task, settings.heartbeatMs)) {
      draft.effects.push({ type: 'heartbeat', to: member.task, address: member.agentAddress });
    }
  }
  for (const contact of draft.base.contacts) {
    const status = draft.members.get(contact.task)?.status;
    // At the address that this task would have had there may be another life of it.
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
    draft.effects.push({ type: 'unproven', claim, why: 'its incarnation is not plausible' });
    return;
  }
  const known = draft.members.get(from.task);
  const superseded = known !== undefined && compareIdentity(from, known) < 0;
  const isChief = from.task === draft.base.chief && !superseded;
  for (const view of message.members) {
    if (view.task !== from.task) hearClaim(draft, view, from.task, isChief);
  }
  if (draft.over !== undefined) return;
  if (from.task === draft.self.task) meetOwnTask(draft, from);
  else if (superseded) {
    // Whoever answers there is a life of the past: let it hear so. A caller hears it in our answer.
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

/** Whether a peer holds another life of this task for the later one: it has not taken note of this life then. */
function isSuccessor({ self }: Draft, view: View): boolean {
  return view.task === self.task && compareIdentity(view, self) > 0;
}

/** A watcher's word about somebody whom we do not watch: check what differs from what we think. */
function hints(draft: Draft, { from, lost }: Message): void {
  if (!isWatched(draft.base, from.task)) return;
  for (const member of draft.members.values()) {
    if (member.task === draft.self.task || member.status === 'left' || isWatched(draft.base, member.task))
      continue;
    const isLost = lost.some((life) => sameIdentity(life, member));
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
  // A process that is dying may take one more call and drop it. Asked again it refuses: see `tick`.
  else if (failure === 'reset' && member.status === 'alive') draft.mistrust(member);
}

function remove(draft: Draft, task: TaskId): void {
  const member = draft.members.get(task);
  if (member === undefined || member.status === 'left' || task === draft.self.task) return;
  const gone = draft.put({ ...member, left: true, status: 'left' });
  draft.effects.push({ type: 'left', member: gone });
  draft.announceToAll();
  draft.announce({ task, address: member.agentAddress });
}

/** What to tell a peer. `whole` for an announcement; a caller of the past is told who replaced it. */
export function messageTo(state: Membership, whole: boolean, caller?: Identity): Message {
  const { members, self, digest } = state;
  const { status: _, ...from } = viewOf(members.get(self.task)!);
  const lost = [...members.values()]
    .filter(({ status }) => status === 'dead')
    .map(({ task, incarnation, nonce }) => ({ task, incarnation, nonce }));
  const successor = caller === undefined ? undefined : members.get(caller.task);
  const isPast = successor !== undefined && (compareIdentity(successor, caller!) > 0 || successor.left);
  const told = whole ? [...members.values()] : isPast ? [successor] : [];
  return { from, digest, lost, members: told.map(viewOf) };
}

/** A member as others hear of it. */
export function viewOf({ lastSeen: _lastSeen, greeting: _greeting, ...view }: Member): View {
  return view;
}

export interface Verdict {
  readonly state: Membership;
  /** Why the order is refused; undefined when it is to be carried out. */
  readonly refused: string | undefined;
}

/**
 * Fencing: an order counts only when it comes from the highest chief seen, in the map or by an order. A
 * chief that was replaced while it slept cannot undo what its successor has done.
 */
export function judgeOrder(state: Membership, from: Identity): Verdict {
  const refused = refusalOfChief(state, from);
  if (refused !== undefined) return { state, refused };
  const { task, incarnation, nonce } = from;
  return { state: { ...state, fence: { task, incarnation, nonce } }, refused: undefined };
}

/** Why an order of this sender does not count. Unlike an order itself, asking raises no fence. */
export function refusalOfChief(state: Membership, from: Identity): string | undefined {
  if (from.task !== state.chief) return `${from.task} is not the chief; ${state.chief ?? 'nobody'} is`;
  const known = state.members.get(from.task);
  const highest = [known, state.fence].reduce<Identity | undefined>(
    (best, next) =>
      next !== undefined && (best === undefined || compareIdentity(next, best) > 0) ? next : best,
    undefined,
  );
  if (highest !== undefined && compareIdentity(from, highest) < 0) {
    const seen = `incarnation ${highest.incarnation} of it has been seen`;
    return `${from.task} of incarnation ${from.incarnation} has been replaced: ${seen}`;
  }
  return undefined;
}
