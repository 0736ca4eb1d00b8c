/**
 * Decides whether training is over, for ps and evaluators, which run longer than the workers. It is over when every
 * worker has left or reported that it is finished. A worker that died or was preempted may restart: it is awaited for a
 * limited time; if none of them had begun to train, for a shorter one.
 */

import { isPresent, type Member } from '../membership/types.js';
import { type TaskId, trains } from '../spec/task-id.js';
import type { FinishedWorkers, Stopped } from './finished-workers.js';

export type TrainingState =
  | { readonly kind: 'training' }
  /** No worker has joined yet. */
  | { readonly kind: 'empty' }
  /** No worker is running, and these died or were preempted. */
  | {
      readonly kind: 'awaiting';
      readonly tasks: readonly TaskId[];
      readonly leftMs: number;
      /** Whether all of them died soon after their start, before they trained. */
      readonly atStart: boolean;
    }
  /**
   * `lost`: workers that did not come back. `stopped`: those that reported another end than that of training.
   * `finished`: whether the training of any worker ended gracefully.
   */
  | {
      readonly kind: 'over';
      readonly lost: readonly TaskId[];
      readonly stopped: readonly StoppedWorker[];
      readonly finished: boolean;
    };

export interface StoppedWorker {
  readonly task: TaskId;
  readonly how: Stopped;
}

export interface TrainingEndOptions {
  readonly members: () => readonly Member[];
  readonly finished: Pick<FinishedWorkers, 'has' | 'returns' | 'stopped' | 'hasBegun'>;
  /** Whether the cluster lists a worker; no task waits for the return of one that it does not list. */
  readonly isListed: (task: TaskId) => boolean;
  /** How long to wait for lost workers while no other worker is running. */
  readonly lostWorkerMs: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** A worker that has died this soon, and had not begun to train, has failed at the start: it would fail again. */
const START_MS = 60_000;
/** How long to wait for workers that have all failed at the start. */
const FAILED_START_MS = 60_000;

export class TrainingEnd {
  readonly #options: TrainingEndOptions;
  /** When each process of a worker was first and last seen running. */
  readonly #seen = new Map<string, { readonly first: number; last: number }>();
  #awaitingSince: number | undefined;

  constructor(options: TrainingEndOptions) {
    this.#options = options;
  }

  /** The current state. The wait for lost workers starts with the first call that finds no running worker. */
  state(): TrainingState {
    const { members, finished, isListed, lostWorkerMs, now } = this.#options;
    const workers = members().filter(({ task }) => trains(task));
    const running = workers.filter(({ status }) => isPresent(status));
    for (const worker of running) this.#see(worker);
    if (workers.length === 0 || running.length > 0) {
      this.#awaitingSince = undefined;
      return { kind: workers.length === 0 ? 'empty' : 'training' };
    }
    const isLost = (member: Member) =>
      isListed(member.task) && (member.status === 'dead' ? !finished.has(member) : finished.returns(member));
    const lost = workers.filter(isLost);
    const stopped = workers.flatMap((member) => {
      const how = isLost(member) ? undefined : finished.stopped(member);
      return how === undefined ? [] : [{ task: member.task, how }];
    });
    const tasks = lost.map(({ task }) => task);
    const isFinished = lost.length + stopped.length < workers.length;
    const over: TrainingState = { kind: 'over', lost: tasks, stopped, finished: isFinished };
    if (lost.length === 0) return over;
    this.#awaitingSince ??= now();
    const atStart = !isFinished && lost.every((member) => this.#failedAtStart(member));
    const waitMs = atStart ? Math.min(FAILED_START_MS, lostWorkerMs) : lostWorkerMs;
    const leftMs = this.#awaitingSince + waitMs - now();
    return leftMs > 0 ? { kind: 'awaiting', tasks, leftMs, atStart } : over;
  }

  #see({ task, incarnation }: Member): void {
    const { now } = this.#options;
    const key = `${task} ${incarnation}`;
    const known = this.#seen.get(key);
    if (known) known.last = now();
    else this.#seen.set(key, { first: now(), last: now() });
  }

  #failedAtStart(member: Member): boolean {
    const { finished } = this.#options;
    if (member.status !== 'dead' || finished.hasBegun(member)) return false;
    const { first = 0, last = 0 } = this.#seen.get(`${member.task} ${member.incarnation}`) ?? {};
    return last - first < START_MS;
  }
}
