/** The working copy of one reduction: collects changes and effects, then returns the next state. */

import type { TaskId } from '../spec/task-id.js';
import { epochOf, type Identity, mapDigest } from './map.js';
import {
  type Claim,
  type Contact,
  type Due,
  type Effect,
  type ExitReason,
  isPresent,
  type LostWhy,
  type Member,
  type Membership,
  type MembershipSettings,
  type Transition,
} from './types.js';
import { isWatched } from './watch.js';

export class Draft {
  readonly base: Membership;
  readonly now: number;
  readonly effects: Effect[] = [];
  readonly members: Map<TaskId, Member>;
  self: Identity;
  settled: boolean;
  over: ExitReason | undefined;
  readonly claims: Map<string, Claim>;
  readonly #due: Map<string, Due>;
  #changed = false;

  constructor(base: Membership, now: number) {
    this.base = base;
    // With a clock that steps back, a silence would never end.
    this.now = Math.max(now, base.now);
    this.members = new Map(base.members);
    this.#due = new Map(base.due);
    this.claims = new Map(base.claims);
    this.self = base.self;
    this.settled = base.settled;
    this.over = base.over;
  }

  get settings(): MembershipSettings {
    return this.base.settings;
  }

  get own(): Member {
    return this.members.get(this.self.task)!;
  }

  /** Stores a member; records whether the shared part of the map changed. */
  put(given: Member): Member {
    const known = this.members.get(given.task);
    const member: Member = isPresent(given.status)
      ? { ...given, goneAt: undefined, isRetired: undefined }
      : { ...given, goneAt: given.goneAt ?? this.now };
    this.#changed ||=
      known === undefined ||
      known.incarnation !== member.incarnation ||
      known.nonce !== member.nonce ||
      known.first !== member.first ||
      known.left !== member.left ||
      known.isRetired !== member.isRetired;
    this.members.set(member.task, member);
    return member;
  }

  /** Removes a member that has been gone for long. */
  forget({ task, isRetired }: Member): void {
    this.#changed ||= !isRetired;
    this.members.delete(task);
  }

  /** Gives this task a new incarnation. */
  changeIdentity(own: Member): void {
    this.self = { task: own.task, incarnation: own.incarnation, nonce: own.nonce };
    this.put(own);
  }

  suspect(member: Member): void {
    this.probe(this.markSuspect(member));
  }

  /** Marks a member as suspect without probing it. */
  markSuspect(member: Member): Member {
    const suspect = this.put({ ...member, status: 'suspect' });
    this.effects.push({ type: 'suspected', member: suspect });
    return suspect;
  }

  lose(member: Member, why: LostWhy): void {
    this.effects.push({ type: 'lost', member: this.put({ ...member, status: 'dead' }), why });
  }

  probe({ task, agentAddress }: Member): void {
    this.effects.push({ type: 'probe', to: task, address: agentAddress });
  }

  announce({ task, address }: Contact): void {
    if (this.effects.some((effect) => effect.type === 'announce' && effect.address === address)) return;
    this.effects.push({ type: 'announce', to: task, address });
  }

  /** Announces to the watched members, which inform the others. */
  announceToAll(): void {
    for (const { task, agentAddress, status } of this.members.values()) {
      if (status !== 'dead' && status !== 'left' && isWatched(this.base, task)) {
        this.announce({ task, address: agentAddress });
      }
    }
  }

  /** Whether an action is due; if so, schedules the next one. */
  isDue(key: string, everyMs: number): boolean {
    if (this.now < (this.#due.get(key)?.at ?? 0)) return false;
    // Slightly early counts as due: otherwise a timer that fires just before would skip a round.
    this.#due.set(key, { at: this.now + everyMs - this.settings.heartbeatMs / 4, attempt: 0 });
    return true;
  }

  isDueWithBackoff(key: string): boolean {
    const { at, attempt } = this.#due.get(key) ?? { at: 0, attempt: 0 };
    if (this.now < at) return false;
    const wait = Math.min(this.settings.retryMs, this.settings.heartbeatMs * 2 ** attempt);
    this.#due.set(key, { at: this.now + wait, attempt: attempt + 1 });
    return true;
  }

  /** Forgets old attempts, so that addresses which peers report do not accumulate. */
  forgetOldAttempts(): void {
    const horizon = this.now - 10 * this.settings.retryMs;
    for (const [key, { at }] of this.#due) if (at < horizon) this.#due.delete(key);
  }

  digest(): string {
    if (!this.#changed) return this.base.digest;
    return mapDigest([...this.members.values()].filter(({ isRetired }) => !isRetired));
  }

  finish(): Transition {
    const epoch = this.#changed ? epochOf(this.members.values()) : this.base.epoch;
    if (epoch > this.base.epoch) this.effects.push({ type: 'epoch', epoch });
    const state: Membership = {
      ...this.base,
      self: this.self,
      members: this.members,
      digest: this.digest(),
      epoch,
      settled: this.settled,
      now: this.now,
      due: this.#due,
      claims: this.claims,
      over: this.over,
    };
    return { state, effects: this.effects };
  }
}
