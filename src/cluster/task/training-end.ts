/**
 * Decides whether training is over, for ps and evaluators, which run longer than the workers. It is over when every
 * worker has left or reported that it is finished. A worker that died or was preempted may restart: it is awaited for a
 * limited time.
 */

import { isPresent, type Member } from '../membership/types.js';
import { type TaskId, trains } from '../spec/task-id.js';
import type { FinishedWorkers } from './finished-workers.js';

export type TrainingState =
  /** No worker has joined yet, or some worker is running. */
  | { readonly kind: 'training' }
  /** No worker is running, and these died or were preempted. */
  | { readonly kind: 'awaiting'; readonly tasks: readonly TaskId[]; readonly leftMs: number }
  /** `lost`: workers that did not come back. `finished`: whether any worker ended gracefully. */
  | { readonly kind: 'over'; readonly lost: readonly TaskId[]; readonly finished: boolean };

export interface TrainingEndOptions {
  readonly members: () => readonly Member[];
  readonly finished: Pick<FinishedWorkers, 'has' | 'returns'>;
  /** Whether the cluster lists a worker; no task waits for the return of one that it does not list. */
  readonly isListed: (task: TaskId) => boolean;
  /** How long to wait for lost workers while no other worker is running. */
  readonly lostWorkerMs: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export class TrainingEnd {
  readonly #options: TrainingEndOptions;
  #awaitingSince: number | undefined;

  constructor(options: TrainingEndOptions) {
    this.#options = options;
  }

  /** The current state. The wait for lost workers starts with the first call that finds no running worker. */
  state(): TrainingState {
    const { members, finished, isListed, lostWorkerMs, now } = this.#options;
    const workers = members().filter(({ task }) => trains(task));
    if (workers.length === 0 || workers.some(({ status }) => isPresent(status))) {
      this.#awaitingSince = undefined;
      return { kind: 'training' };
    }
    const isLost = (member: Member) =>
      isListed(member.task) && (member.status === 'dead' ? !finished.has(member) : finished.returns(member));
    const lost = workers.filter(isLost).map(({ task }) => task);
    const over: TrainingState = { kind: 'over', lost, finished: lost.length < workers.length };
    if (lost.length === 0) return over;
    this.#awaitingSince ??= now();
    const leftMs = this.#awaitingSince + lostWorkerMs - now();
    return leftMs > 0 ? { kind: 'awaiting', tasks: lost, leftMs } : over;
  }
}
