/** Simulates tasks around the membership reducer: virtual time, virtual network, no sockets. */

import { admitOrder } from '../membership/fence.js';
import type { Identity } from '../membership/map.js';
import { initialState, messageTo, reduceMembership } from '../membership/membership.js';
import type {
  Contact,
  Effect,
  Event,
  Membership,
  MembershipMessage,
  MembershipSettings,
  View,
} from '../membership/types.js';
import { isWatched, watchersOf } from '../membership/watch.js';
import { parseTaskId, type TaskId } from '../spec/task-id.js';

export interface Process {
  /** `ps1` for the first process of a task, `ps1#2` for its second. */
  readonly label: string;
  readonly task: TaskId;
  readonly address: string;
  state: Membership;
  /** `frozen`: all threads are stopped. `blocked`: only the main thread is. */
  condition: 'running' | 'frozen' | 'blocked' | 'gone';
  readonly backlog: (() => void)[];
}

export interface WorldOptions {
  readonly contacts: readonly Contact[];
  readonly chief: TaskId | undefined;
  readonly settings: MembershipSettings;
  readonly onEffect?: (process: Process, effect: Effect, now: number) => void;
  /** The delay of one message in ms; default: 1. */
  readonly delay?: () => number;
}

interface Job {
  readonly at: number;
  readonly run: () => void;
}

/** Whether a process neither ticks nor answers. */
export const isStill = ({ condition }: Process): boolean => condition === 'frozen' || condition === 'blocked';

export class World {
  now = 0;
  readonly processes: Process[] = [];
  readonly #jobs: Job[] = [];
  readonly #partitions = new Set<string>();

  constructor(readonly options: WorldOptions) {}

  start(task: TaskId, how: { address?: string; clock?: number } = {}): Process {
    const { contacts, chief, settings } = this.options;
    const { job, index } = parseTaskId(task);
    const count = this.processes.filter((other) => other.task === task).length + 1;
    const label = `${job}${index}${count > 1 ? `#${count}` : ''}`;
    const address = how.address ?? contacts.find((contact) => contact.task === task)?.address ?? `${label}:1`;
    const seen = contacts.flatMap((contact) => {
      const other = this.#at(contact.address);
      const isSilent =
        other === undefined || other.condition !== 'running' || this.#isPartitioned(address, other.address);
      const entry = isSilent ? undefined : other.state.members.get(task);
      return entry === undefined ? [] : [entry];
    });
    const incarnation =
      seen.length > 0 ? Math.max(...seen.map((entry) => entry.incarnation)) + 1 : (how.clock ?? 100);
    const first = Math.min(incarnation, ...seen.map((entry) => entry.first));
    const self = { task, incarnation, first, nonce: `n${this.processes.length}`, agentAddress: address };
    const rest = { serverAddress: `${label}:9`, host: label, pid: 1000 + this.processes.length };
    const state = initialState({ self: { ...self, ...rest }, chief, contacts, settings, now: this.now });
    const process: Process = { label, task, address, state, condition: 'running', backlog: [] };
    this.processes.push(process);
    this.dispatch(process, { type: 'start', now: this.now });
    this.#tickForever(process);
    return process;
  }

  kill(process: Process): void {
    process.condition = 'gone';
    const { self } = process.state;
    for (const other of this.processes) {
      const isLinked =
        isWatched(process.state, other.task) && !this.#isPartitioned(process.address, other.address);
      if (other.condition === 'running' && isLinked) {
        this.#after(1, () => this.dispatch(other, { type: 'disconnected', now: this.now, peer: self }));
      }
    }
  }

  freeze(process: Process): void {
    process.condition = 'frozen';
  }

  block(process: Process): void {
    process.condition = 'blocked';
  }

  thaw(process: Process): void {
    process.condition = 'running';
    for (const late of process.backlog.splice(0)) late();
  }

  partition(a: string, b: string): void {
    this.#partitions.add([a, b].sort().join(' '));
  }

  heal(): void {
    this.#partitions.clear();
  }

  order(chief: Process, to: Process): string | undefined {
    const { state, refused } = admitOrder(to.state, chief.state.self);
    to.state = state;
    return refused;
  }

  /** Sends claims of one process about others, true or false. */
  forge(by: Process, to: Process, members: readonly View[]): void {
    const message = { ...messageTo(by.state, false), members };
    this.dispatch(to, { type: 'heard', now: this.now, via: 'request', message });
  }

  dispatch(process: Process, event: Event): void {
    if (process.condition === 'gone') return;
    if (isStill(process)) {
      if (event.type !== 'tick')
        process.backlog.push(() => this.dispatch(process, { ...event, now: this.now }));
      return;
    }
    const { state, effects } = reduceMembership(process.state, event);
    process.state = state;
    for (const effect of effects) {
      this.options.onEffect?.(process, effect, this.now);
      if (effect.type === 'exit') this.kill(process);
      if ('address' in effect) this.#send(process, effect);
    }
  }

  /** Advances the time. */
  run(ms: number): void {
    const end = this.now + ms;
    for (let next = this.#jobs[0]; next !== undefined && next.at <= end; next = this.#jobs[0]) {
      this.#jobs.shift();
      this.now = next.at;
      next.run();
    }
    this.now = end;
  }

  #send(from: Process, effect: Extract<Effect, { address: string }>): void {
    const complete = effect.type === 'announce';
    const delay = this.options.delay ?? (() => 1);
    const message = messageTo(from.state, complete);
    const known = from.state.members.get(effect.to);
    const peer: Identity | undefined = known?.agentAddress === effect.address ? known : undefined;
    const checked = (answered: boolean) => {
      if (effect.type !== 'check') return;
      this.dispatch(from, { type: 'checked', now: this.now, claim: effect.claim, answered });
    };
    const fail = (failure: 'refused' | 'timeout' | 'other', after: number) =>
      this.#after(after, () => {
        const fresh = effect.type !== 'heartbeat';
        if (peer !== undefined)
          this.dispatch(from, { type: 'unreachable', now: this.now, peer, failure, fresh });
        checked(false);
      });
    this.#after(delay(), () => {
      const to = this.#at(effect.address);
      const isPartitioned = this.#isPartitioned(from.address, effect.address);
      if (isPartitioned || (to && isStill(to))) fail('timeout', 2 * this.options.settings.heartbeatMs);
      else if (to === undefined) fail('refused', delay());
      // Its certificate is not valid for the expected task.
      else if (to.task !== effect.to) fail('other', delay());
      if (isPartitioned || to === undefined || to.task !== effect.to) return;
      const isFrozen = isStill(to);
      this.dispatch(to, { type: 'heard', now: this.now, via: 'request', message });
      // It replies even if the message makes it exit.
      if (isFrozen) return;
      const answer: MembershipMessage = messageTo(to.state, complete, message.from);
      this.#after(delay(), () => {
        const via = complete ? 'announce' : 'heartbeat';
        this.dispatch(from, { type: 'heard', now: this.now, via, message: answer });
        checked(true);
      });
    });
  }

  #tickForever(process: Process): void {
    this.#after(this.options.settings.heartbeatMs / 2, () => {
      if (process.condition === 'gone') return;
      this.dispatch(process, { type: 'tick', now: this.now });
      if (process.condition === 'blocked') this.#pulse(process);
      this.#tickForever(process);
    });
  }

  #pulse({ state, address }: Process): void {
    for (const watcher of watchersOf(state)) {
      this.#after(this.options.delay?.() ?? 1, () => {
        const to = this.#at(watcher.address);
        if (to?.task !== watcher.task || this.#isPartitioned(address, to.address)) return;
        this.dispatch(to, { type: 'pulse', now: this.now, from: state.self });
      });
    }
  }

  #after(ms: number, run: () => void): void {
    const at = this.now + ms;
    // Ordered by time, then by insertion.
    this.#jobs.splice(this.#jobs.findLastIndex((job) => job.at <= at) + 1, 0, { at, run });
  }

  #at(address: string): Process | undefined {
    return this.processes.findLast((process) => process.address === address && process.condition !== 'gone');
  }

  #isPartitioned(a: string, b: string): boolean {
    return this.#partitions.has([a, b].sort().join(' '));
  }
}
