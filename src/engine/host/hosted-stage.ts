/**
 * A stage in the session of a task. A cheap stage runs immediately, on the calling thread. Any other runs on a thread
 * of the pool, so that it does not block the rest. A stage that waits runs in slices, since TensorFlow cannot cancel a
 * run: between two slices a cancelled one ends. Its op has no effect until it succeeds, so it can be run again.
 */
import { isShoalError, ShoalError } from '../../errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import type { PreparedRun, Session } from '../../session/session.js';
import type { Tensor } from '../../tensor/tensor.js';
import { isCheap } from './stage-cost.js';

/** Called once: with the outputs, which then belong to the receiver, or with an error. */
export type StageDone = (error: ShoalError | undefined, outputs: readonly Tensor[]) => void;

export interface HostedStageParts {
  readonly inputs: readonly Output[];
  readonly outputs: readonly Output[];
  readonly targets: readonly Operation[];
  readonly waits: boolean;
  readonly task: string;
  /** Replaces the names of the session by those of the cluster. */
  readonly rename: (message: string) => string;
}

/** Runs before a stage may block the event loop: the first ones prepare the executor. */
const WARM_UP_RUNS = 3;
/** A stage that takes longer runs on the pool from then on. */
const MOST_MS = 1;
const SLICE_MS = 1000;

export class HostedStage {
  readonly #parts: HostedStageParts;
  readonly #prepared: PreparedRun;
  #mayBlock: boolean;
  #runs = 0;
  #slow = 0;

  constructor(session: Session, parts: HostedStageParts) {
    this.#parts = parts;
    const { inputs, outputs, targets, waits } = parts;
    this.#mayBlock = !waits && isCheap([...outputs.map(({ op }) => op), ...targets]);
    this.#prepared = session.prepare(outputs, inputs, targets, this.#mayBlock ? { inline: true } : {});
  }

  /** Starts the stage. Returns the function that cancels it; `done` is called in any case. */
  start(values: readonly Tensor[], timeoutMs: number | undefined, done: StageDone): (() => void) | undefined {
    const { inputs, waits } = this.#parts;
    if (values.length !== inputs.length) {
      done(this.#error(new Error(`the stage takes ${inputs.length} tensors, not ${values.length}`)), []);
      return undefined;
    }
    if (this.#mayBlock && this.#runs >= WARM_UP_RUNS) {
      this.#runNow(values, done);
      return undefined;
    }
    this.#runs += 1;
    if (waits) return this.#wait(values, timeoutMs, done);
    this.#prepared.run(values, timeoutMs === undefined ? {} : { timeoutMs }).then(
      (outputs) => done(undefined, outputs),
      (error: unknown) => done(this.#error(error), []),
    );
    return undefined;
  }

  #runNow(values: readonly Tensor[], done: StageDone): void {
    const started = performance.now();
    let outputs: readonly Tensor[];
    try {
      outputs = this.#prepared.sync(values);
    } catch (error) {
      done(this.#error(error), []);
      return;
    }
    // One slow run may be a pause of the machine.
    this.#slow = performance.now() - started > MOST_MS ? this.#slow + 1 : 0;
    if (this.#slow >= 5) this.#mayBlock = false;
    done(undefined, outputs);
  }

  #wait(values: readonly Tensor[], timeoutMs: number | undefined, done: StageDone): () => void {
    const end = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
    let isCancelled = false;
    const slice = () => {
      const left = end - performance.now();
      this.#prepared.run(values, { timeoutMs: Math.max(1, Math.min(SLICE_MS, left)), isPatient: true }).then(
        (outputs) => done(undefined, outputs),
        (error: unknown) => {
          const isOver = !isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED') || performance.now() >= end;
          if (isCancelled || isOver) done(this.#error(error), []);
          else slice();
        },
      );
    };
    slice();
    return () => {
      isCancelled = true;
    };
  }

  #error(error: unknown): ShoalError {
    const { task, rename } = this.#parts;
    if (!isShoalError(error))
      return new ShoalError('SHOAL_INTERNAL', `${task}: ${String(error)}`, { task, cause: error });
    const { code, hint, op } = error;
    const text = hint ? error.message.replace(`\n  hint: ${hint}`, '') : error.message;
    return new ShoalError(code, rename(text), {
      task,
      cause: error,
      ...(hint && { hint: rename(hint) }),
      ...(op && { op: rename(op) }),
    });
  }
}
