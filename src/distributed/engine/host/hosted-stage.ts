/**
 * A stage in the session of a task. A tiny stage runs immediately, on the calling thread. Any other runs on a thread of
 * the pool, so that it does not block the rest. A stage that waits starts when it need not wait (waiting.ts).
 */
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import type { PreparedRun, Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { OpenStage, TaskTrace } from '../trace/task-trace.js';
import { costOf, type StageCost } from './stage-cost.js';
import { readinessOf, type WaitCheck, type Waiter, type WaitingStages, waitLimit } from './waiting.js';

/** Called once: with all outputs, which then belong to the receiver, or with an error. */
export type StageDone = (error: ShoalError | undefined, outputs: readonly Tensor[]) => void;

export interface HostedStageOptions {
  readonly inputs: readonly Output[];
  readonly outputs: readonly Output[];
  readonly targets: readonly Operation[];
  readonly waits: boolean;
  readonly task: string;
  /** The stages of the task that wait. */
  readonly waiting: WaitingStages;
  /** Replaces the names of the session by those of the cluster. */
  readonly rename: (message: string) => string;
  /** What it computes, for traces. */
  readonly name: string;
  readonly trace: TaskTrace;
}

/** Runs before a stage may block the event loop: the first ones prepare the executor. */
const WARM_UP_RUNS = 3;
/** A stage that takes longer runs on the pool from then on. */
const MOST_MS = 1;
/** How long TensorFlow may wait in a stage: it cannot cancel a run. */
const SLICE_MS = 1000;
const INLINE = { tiny: 'any', light: 'pool', heavy: 'none' } as const;

export class HostedStage {
  readonly #parts: HostedStageOptions;
  readonly #prepared: PreparedRun;
  readonly #cost: StageCost;
  /** Of a stage that waits. */
  readonly #readiness: WaitCheck | undefined;
  #mayBlock: boolean;
  #runs = 0;
  #slow = 0;

  constructor(session: Session, parts: HostedStageOptions) {
    this.#parts = parts;
    const { inputs, outputs, targets, waits } = parts;
    const ends = [...outputs.map(({ op }) => op), ...targets];
    this.#cost = waits ? 'heavy' : costOf(ends);
    this.#mayBlock = this.#cost === 'tiny';
    if (waits) this.#readiness = readinessOf(session, ends, inputs);
    this.#prepared = session.prepare(outputs, inputs, targets, { inline: INLINE[this.#cost] });
  }

  /**
   * Starts the stage, for a call of another task or a run of this one with this number. Returns the function that cancels
   * it; `done` is called in any case.
   */
  start(
    values: readonly Tensor[],
    timeoutMs: number | undefined,
    onDone: StageDone,
    caller: string,
    call: number,
  ): (() => void) | undefined {
    const { inputs, waiting, trace } = this.#parts;
    const traced: OpenStage | undefined = trace.isOn ? { from: trace.now() } : undefined;
    const done: StageDone = (error, outputs) => {
      if (traced) this.#traceEnd(traced, error, caller, call);
      onDone(error, outputs);
      waiting.wake();
    };
    if (values.length !== inputs.length) {
      done(this.#error(new Error(`the stage takes ${inputs.length} tensors, not ${values.length}`)), []);
      return undefined;
    }
    if (this.#mayBlock && this.#runs >= WARM_UP_RUNS) {
      this.#runNow(values, done);
      return undefined;
    }
    this.#runs += 1;
    if (this.#readiness) return this.#wait(values, timeoutMs, done, traced);
    // A stage without waits needs no deadline: TensorFlow executes runs without one faster.
    const hasDeadline = this.#cost === 'heavy' && timeoutMs !== undefined;
    const options = hasDeadline ? { timeoutMs } : {};
    this.#prepared.run(values, traced ? { ...options, ...this.#noting(traced) } : options).then(
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

  #wait(
    values: readonly Tensor[],
    timeoutMs: number | undefined,
    done: StageDone,
    traced: OpenStage | undefined,
  ): () => void {
    const end = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
    const { waiting } = this.#parts;
    let isCancelled = false;
    const finish: StageDone = (error, outputs) => {
      stopTimer();
      done(error, outputs);
    };
    // Another run may have been faster: then TensorFlow waits for a moment, and the stage waits here again.
    const start = (ended: () => void) => {
      const left = end - performance.now();
      const options = { timeoutMs: Math.max(1, Math.min(SLICE_MS, left)), isPatient: true };
      if (traced) traced.waited = this.#parts.trace.now();
      this.#prepared.run(values, traced ? { ...options, ...this.#noting(traced) } : options).then(
        (outputs) => {
          finish(undefined, outputs);
          ended();
        },
        (error: unknown) => {
          const isLast = !isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED') || performance.now() >= end;
          if (isCancelled || isLast) finish(this.#error(error), []);
          else withdraw = waiting.add(waiter);
          ended();
        },
      );
    };
    const { isReady, ...names } = this.#readiness as WaitCheck;
    if (traced) traced.waitedFor = this.#parts.rename(names.thing);
    const waiter: Waiter = { ...names, isReady: () => isReady(values), start };
    let withdraw = waiting.add(waiter);
    const giveUp = (error: ShoalError) => {
      // It has not started: otherwise the end of the run finishes it.
      if (withdraw()) finish(this.#error(error), []);
    };
    const stopTimer = waitLimit(timeoutMs, giveUp);
    return () => {
      isCancelled = true;
      giveUp(new ShoalError('SHOAL_TF_CANCELLED', 'the run was cancelled'));
    };
  }

  /** Notes when TensorFlow begins. */
  #noting(traced: OpenStage): { readonly onBegun: () => void } {
    const { trace } = this.#parts;
    return {
      onBegun: () => {
        traced.begun = trace.now();
      },
    };
  }

  #traceEnd(traced: OpenStage, error: ShoalError | undefined, caller: string, call: number): void {
    const { trace, name } = this.#parts;
    trace.add({ kind: 'stage', stage: name, caller, call, ...traced, to: trace.now(), error: error?.code });
  }

  #error(error: unknown): ShoalError {
    const { task, rename } = this.#parts;
    if (!isShoalError(error))
      return new ShoalError('SHOAL_INTERNAL', `${task}: ${String(error)}`, { task, cause: error });
    const { code, message, hint, op } = error;
    return new ShoalError(code, rename(message), {
      task,
      cause: error,
      ...(hint && { hint: rename(hint) }),
      ...(op && { op: rename(op) }),
    });
  }
}
