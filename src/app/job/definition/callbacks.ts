/** The callbacks of a job; those of each step are a hook of its training. */
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import {
  type MaybePromise,
  type SessionRunArgs,
  type SessionRunContext,
  SessionRunHook,
  type SessionRunValues,
} from '../../../training/train/hooks/session-run-hook.js';
import type { RecoveryEvent } from '../../../training/train/recovery/recovery-report.js';
import type { JobResult } from './job-result.js';

export interface StepEvent {
  /** The global step after the update. */
  readonly step: number;
  readonly loss: number;
}

export interface SavedEvent {
  readonly step: number;
  /** The path of the checkpoint, without the endings of its files. */
  readonly path: string;
}

/** Called on workers. An error in a callback fails the job; training waits for the promise of `onStep`. */
export interface JobCallbacks {
  /** After each step of this worker. */
  readonly onStep?: (event: StepEvent) => MaybePromise<void>;
  /** After each checkpoint; only on the chief. */
  readonly onSave?: (event: SavedEvent) => MaybePromise<void>;
  /** When training continues after the loss of a task; the step may be lower than before. */
  readonly onRecover?: (event: RecoveryEvent) => MaybePromise<void>;
  /** When training has ended without an error. */
  readonly onEnd?: (result: JobResult) => MaybePromise<void>;
}

export interface CallbacksHookParts {
  /** The global step after the update of the same run. */
  readonly stepAfter: Output<'int64'>;
  readonly loss: Output;
}

type Results = readonly [step: Tensor<'int64'>, loss: Tensor];

export class CallbacksHook extends SessionRunHook<Results> {
  readonly #callbacks: JobCallbacks;
  readonly #parts: CallbacksHookParts;

  constructor(callbacks: JobCallbacks, parts: CallbacksHookParts) {
    super();
    this.#callbacks = callbacks;
    this.#parts = parts;
  }

  override beforeRun(): SessionRunArgs | undefined {
    if (!this.#callbacks.onStep) return undefined;
    return { fetches: [this.#parts.stepAfter, this.#parts.loss] };
  }

  override async afterRun(
    _context: SessionRunContext,
    { results }: SessionRunValues<Results>,
  ): Promise<void> {
    if (!this.#callbacks.onStep) return;
    const [step, loss] = results;
    await this.#callbacks.onStep({ step: step.number(), loss: loss.number() });
  }
}
