/**
 * Whether training is over, for the tasks that outlast it: ps and evaluators. It is over when every worker has left, or has
 * reported that it is finished. A worker that died may be relaunched: it is waited for, but not for ever.
 */

import { isThere, type Member } from '../membership/types.js';
import { type TaskId, trains } from '../spec/task-id.js';
import type { FinishedWorkers } from './finished-workers.js';

export type TrainingState =
  /** Nobody has trained yet, or somebody does. */
  | { readonly kind: 'training' }
  /** No worker is there, and these died without a leave message. */
  | { readonly kind: 'awaiting'; readonly tasks: readonly TaskId[]; readonly leftMs: number }
  /** `lost`: who did not come back. `finished`: whether any worker ended gracefully. */
  | { readonly kind: 'over'; readonly lost: readonly TaskId[]; readonly finished: boolean };

export interface TrainingEndOptions {
  readonly members: () => readonly Member[];
  readonly finished: Pick<FinishedWorkers, 'has'>;
  /** How long a worker that died may stay away while no other worker is there. */
  readonly lostWorkerMs: number;
  /** Milliseconds that only go forward. */
  readonly now: () => number;
}

export class TrainingEnd {
  readonly #options: TrainingEndOptions;
  #awaitingSince: number | undefined;

  constructor(options: TrainingEndOptions) {
    this.#options = options;
  }

  /** The state of the moment. The wait for lost workers is counted from the first call that finds no other worker there. */
  state(): TrainingState {
    const { members, finished, lostWorkerMs, now } = this.#options;
    const workers = members().filter(({ task }) => trains(task));
    if (workers.length === 0 || workers.some(({ status }) => isThere(status))) {
      this.#awaitingSince = undefined;
      return { kind: 'training' };
    }
    const isLost = (member: Member) => member.status === 'dead' && !finished.has(member);
    const lost = workers.filter(isLost).map(({ task }) => task);
    const over: TrainingState = { kind: 'over', lost, finished: lost.length < workers.length };
    if (lost.length === 0) return over;
    this.#awaitingSince ??= now();
    const leftMs = this.#awaitingSince + lostWorkerMs - now();
    return leftMs > 0 ? { kind: 'awaiting', tasks: lost, leftMs } : over;
  }
}
