/**
 * A training session with hooks. Each run calls them and survives the loss of a ps; `shouldStop` returns true when
 * training is over. `close` calls the hooks' `end`, unless training failed, stops the background tasks, and throws the
 * first error of training.
 */
import { withDeadline } from '../../../base/async/deadline.js';
import { describeError, invalid, isShoalError } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import { persist, runWithHooks } from '../core/hooked-run.js';
import type { OpenedTraining } from '../core/open-training.js';
import { SessionRunContext, type SessionRunHook } from '../hooks/session-run-hook.js';
import type { SummaryWriters } from '../hooks/summary-writers.js';
import { type Coordinator, isCleanStop } from '../recovery/coordinator.js';
import type { StepEnding } from '../recovery/steps/step-ending.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import type { TrainingRunner } from '../task/training-runner.js';

export type MonitoredRunOptions = Pick<RunOptions, 'feeds' | 'targets' | 'timeoutMs' | 'onMetadata'>;

/** Passed to a step function. */
export interface StepContext {
  /** The underlying session: its runs call no hooks. */
  readonly session: TrainingRunner;
  /** A run with hooks: a training step. */
  runWithHooks<const F extends Fetches>(fetches: F, options?: MonitoredRunOptions): Promise<FetchResult<F>>;
  requestStop(): void;
}

export interface MonitoredParts {
  readonly training: OpenedTraining;
  readonly hooks: readonly SessionRunHook[];
  readonly coordinator: Coordinator;
  readonly writers: SummaryWriters;
  readonly stopGracePeriodSecs: number;
  readonly ending: StepEnding;
  readonly signal: AbortSignal | undefined;
  readonly log: (line: string) => void;
  /** Whether this task waits at the end for the work of other tasks: see LastSteps. */
  readonly staysAtEnd: boolean;
}

export class MonitoredSession implements AsyncDisposable {
  readonly graph: Graph;
  readonly #parts: MonitoredParts;
  readonly #running = new Set<Promise<unknown>>();
  readonly #onSignal: () => void;
  #stop = false;
  #failure: { readonly error: unknown } | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: MonitoredParts) {
    this.#parts = parts;
    this.graph = parts.training.session.graph;
    this.#onSignal = () => this.#stopBySignal();
    const { ending, signal, training } = parts;
    ending.mayFinish = () => !training.session.isRecovering;
    if (signal?.aborted) this.#onSignal();
    else signal?.addEventListener('abort', this.#onSignal, { once: true });
  }

  /** Where the steps of this task pause for a consistent snapshot. @internal */
  get gate(): StepGate | undefined {
    return this.#parts.training.gate;
  }

  /** The number of recoveries from a loss. */
  get recoveries(): number {
    return this.#parts.training.session.recoveries;
  }

  /** The underlying session, for runs that are not training steps and call no hooks. */
  get rawSession(): TrainingRunner {
    return this.#parts.training.runner;
  }

  /** Runs in the background that survive the loss of a ps and do not pause for snapshots. @internal */
  get background(): TrainingRunner {
    return this.#parts.training.background;
  }

  shouldStop(): boolean {
    return this.#stop || this.#closing !== undefined || this.#parts.coordinator.shouldStop();
  }

  requestStop(): void {
    this.#stop = true;
  }

  /**
   * A training step. It fails with OUT_OF_RANGE at the end of the input: `shouldStop` then returns true, and the
   * session closes gracefully.
   */
  run<const F extends Fetches>(fetches: F, options: MonitoredRunOptions = {}): Promise<FetchResult<F>> {
    return this.#step(() => this.#runOnce(fetches, options), options);
  }

  /** A step of several runs, which the function makes. After the loss of a ps the function is called again. */
  runStepFn<T>(stepFn: (context: StepContext) => T | Promise<T>): Promise<T> {
    const context: StepContext = {
      session: this.#parts.training.runner,
      runWithHooks: (fetches, options = {}) => this.#runOnce(fetches, options),
      requestStop: () => this.requestStop(),
    };
    return this.#step(async () => stepFn(context), {});
  }

  async #runOnce<const F extends Fetches>(fetches: F, options: MonitoredRunOptions): Promise<FetchResult<F>> {
    const { training, hooks, coordinator, ending } = this.#parts;
    const context = new SessionRunContext(
      training.runner,
      { fetches, ...(options.feeds ? { feeds: options.feeds } : {}) },
      coordinator.signal,
    );
    const run = { hooks, context, options, session: training.session, signal: ending.signal };
    const result = await runWithHooks(run, fetches);
    if (context.stopRequested) this.#stop = true;
    return result;
  }

  #step<T>(body: () => Promise<T>, options: MonitoredRunOptions): Promise<T> {
    if (this.shouldStop()) return this.#refuse();
    const running = this.#persist(body, options);
    this.#running.add(running);
    const forget = () => {
      this.#running.delete(running);
      if (this.#stop && this.#running.size === 0) this.#parts.ending.finished();
    };
    running.then(forget, forget);
    return running;
  }

  async #refuse(): Promise<never> {
    this.#parts.coordinator.raiseRequestedException();
    throw invalid('run was called after the end of training', {
      hint: 'Check session.shouldStop() before each run.',
    });
  }

  async #persist<T>(body: () => Promise<T>, options: MonitoredRunOptions): Promise<T> {
    const { training } = this.#parts;
    try {
      const result = await persist(training.session, body, options);
      this.#failure = undefined;
      return result;
    } catch (error) {
      if (this.isCleanEnd(error)) this.#stop = true;
      else this.#failure = { error };
      throw error;
    }
  }

  /** Whether an error only reports that training is over. */
  isCleanEnd(error: unknown): boolean {
    const { ending, signal } = this.#parts;
    const isStopped = signal?.aborted || ending.signal.aborted;
    const isCancelled = isStopped && isShoalError(error, 'SHOAL_ABORTED');
    return isCleanStop(error) || isCancelled;
  }

  #stopBySignal(): void {
    this.#stop = true;
    if (this.#running.size === 0) this.#parts.ending.finished();
  }

  /** Ends the session. After an error, given here or of the last run, the hooks' `end` is not called. */
  close(options: { readonly error?: unknown } = {}): Promise<void> {
    if (options.error !== undefined && !this.isCleanEnd(options.error)) {
      this.#failure = { error: options.error };
    }
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { training, hooks, coordinator, writers, stopGracePeriodSecs, ending, signal, log } = this.#parts;
    const graceMs = stopGracePeriodSecs * 1000;
    const errors: unknown[] = [];
    const attempt = async (what: string, body: () => Promise<unknown> | unknown, moreMs = 0) => {
      try {
        await withDeadline(Promise.resolve(body()), what, { timeoutMs: graceMs + moreMs });
      } catch (error) {
        errors.push(error);
      }
    };
    if (this.#running.size > 0) {
      await attempt('Waiting for steps in flight', () => Promise.allSettled(this.#running));
    }
    ending.finished();
    training.gate?.ended();
    if (this.#failure) errors.push(this.#failure.error);
    await attempt('The input', () => coordinator.raiseRequestedException());
    // Ends waits for leases first: workers that wait for one cannot finish their last steps.
    training.leased?.finish();
    if (errors.length === 0) {
      if (!signal?.aborted) await training.outlast(signal).catch((error: unknown) => errors.push(error));
      for (const hook of hooks)
        await attempt(`The end of ${nameOf(hook)}`, () => hook.end?.(training.runner), hook.endMs);
    }
    coordinator.requestStop();
    await attempt('Stopping background tasks', () =>
      coordinator.join([], { stopGracePeriodSecs: stopGracePeriodSecs / 2, ignoreLiveTasks: true }),
    );
    signal?.removeEventListener('abort', this.#onSignal);
    ending[Symbol.dispose]();
    ending.cancel('the session was closed');
    await attempt('Closing the session', () => training[Symbol.asyncDispose]());
    await attempt('Closing event files', () => writers.close());
    const stay = this.#parts.staysAtEnd && errors.length === 0;
    // `finish` has its own deadlines: an export may take longer than the grace period.
    const failed = errors.length > 0;
    await training.finish({ stay, signal, failed }).catch((error: unknown) => errors.push(error));
    const [first, ...others] = errors;
    for (const error of others)
      if (error !== first) log(`while closing the session: ${describeError(error)}`);
    if (errors.length > 0) throw first;
  }

  /** Closes. An error that a run has thrown already is not thrown again. */
  async [Symbol.asyncDispose](): Promise<void> {
    const thrown = this.#failure?.error;
    try {
      await this.close();
    } catch (error) {
      if (error !== thrown) throw error;
    }
  }
}

const nameOf = (hook: SessionRunHook): string => hook.constructor.name || 'a hook';
