/** Looks at a synchronous step that takes long: reads its marks on the ps, and leaves the decision to `sync-stall`. */
import type { Output } from '../../../../tensorflow/graph/operation.js';
import { areWaiting, type SyncMark } from '../../../../tensorflow/optimizers/sync/sync-marks.js';
import type { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import type { Runner } from '../../../../tensorflow/session/runner.js';
import {
  newSyncStall,
  reduceSyncStall,
  type SyncStallEffect,
  type SyncStallEvent,
  type SyncView,
  type SyncWorker,
} from '../../recovery/sync-stall.js';

const READ_MS = 10_000;

export interface SyncWatchOptions {
  readonly runner: Runner;
  readonly optimizer: SyncReplicasOptimizer;
  readonly statusOf: (worker: number) => SyncWorker['status'];
  /** The time between two looks. */
  readonly lookMs: number;
}

export interface Attempt {
  readonly number: bigint;
  readonly signal: AbortSignal;
  /** Called after each look, except those that fail. */
  readonly onLook: (effect: SyncStallEffect) => void;
}

export class SyncWatch {
  readonly #options: SyncWatchOptions;
  #state;

  constructor(options: SyncWatchOptions) {
    this.#options = options;
    this.#state = newSyncStall(options.lookMs);
  }

  /** Looks at an attempt to make a step until the returned function is called. */
  begin({ number, signal, onLook }: Attempt): () => void {
    let isOver = false;
    let timer: NodeJS.Timeout | undefined;
    const look = async () => {
      try {
        const view = await this.#view(number, signal);
        if (isOver) return;
        const effect = this.#reduce({ type: 'seen', at: performance.now(), view });
        if (effect) onLook(effect);
      } catch {
        // A ps that does not answer is the business of the runs and of the membership.
      }
      if (!isOver) next();
    };
    const next = () => {
      timer = setTimeout(look, this.#options.lookMs).unref();
    };
    next();
    return () => {
      isOver = true;
      clearTimeout(timer);
      this.#reduce({ type: 'made', at: performance.now() });
    };
  }

  #reduce(event: SyncStallEvent): SyncStallEffect | undefined {
    const { state, effect } = reduceSyncStall(this.#state, event);
    this.#state = state;
    return effect;
  }

  async #view(attempt: bigint, signal: AbortSignal): Promise<SyncView> {
    const { runner, optimizer, statusOf } = this.#options;
    const { required, isDeterministic, progress } = optimizer;
    const options = { timeoutMs: READ_MS, signal };
    const marks = [...progress.workers.flat(), ...progress.devices.map(({ taken }) => taken)];
    const areSet = await runner.run(
      marks.map(({ isSet }) => isSet),
      options,
    );
    const known = marks.filter((_, i) => areSet[i]?.item() as boolean);
    const read = await runner.run(
      {
        step: progress.step,
        tokens: progress.tokens,
        marks: known.map(({ value }) => value),
        gradients: progress.devices.map(({ gradients }) => gradients as Output),
      },
      options,
    );
    const values = new Map(known.map((mark, i) => [mark, read.marks[i]?.item() as bigint]));
    const markOf = (mark: SyncMark) => values.get(mark);
    return {
      step: read.step.number(),
      required,
      needsAll: isDeterministic,
      workers: optimizer.workers.map((task, i) => ({
        task,
        status: statusOf(i),
        waits: areWaiting((progress.workers[i] ?? []).map(markOf)),
        tokens: (read.tokens.data as Int32Array)[i] ?? 0,
      })),
      devices: progress.devices.map(({ device, taken }, i) => ({
        name: device.replace(/\/device:.*$/, '') || 'this process',
        isTaken: markOf(taken) === attempt,
        gradients: read.gradients[i]?.number() ?? 0,
      })),
    };
  }
}
