/**
 * A training session with hooks. Each run calls them and survives the loss of a ps; `shouldStop` returns true when
 * training is over. `close` calls the hooks' `end`, unless training failed, stops the background tasks, and throws the
 * first error of training.
 */
import { withDeadline } from '../../../base/async/deadline.js';
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import { persist, runWithHooks } from '../core/hooked-run.js';
import type { EndPolicy } from '../core/lifecycle.js';
import type { OpenedTraining } from '../core/open-training.js';
import { Training } from '../core/training.js';
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

export interface MonitoredTraining {
  readonly training: OpenedTraining;
  readonly hooks: readonly SessionRunHook[];
  readonly coordinator: Coordinator;
  readonly writers: SummaryWriters;
  readonly stopGracePeriodSecs: number;
  readonly ending: StepEnding;
  readonly signal: AbortSignal | undefined;
  readonly log: Log;
  /** Whether this task waits at the end for the work of other tasks: see LastSteps. */
  readonly stays: boolean;
}

/** The last save is the end of a hook, and the others end even if it fails. */
const POLICY: EndPolicy = { loopsEnd: 'after hooks', endsHooksUnsaved: true, leavesFailed: true };

export class MonitoredSession implements AsyncDisposable {
  readonly graph: Graph;
  readonly #given: MonitoredTraining;
  readonly #running = new Set<Promise<unknown>>();
  readonly #life: Training;
  readonly #onSignal: () => void;
  #stop = false;
  #failure: { readonly error: unknown } | undefined;
  #isClosing = false;

  constructor(given: MonitoredTraining) {
    this.#given = given;
    this.graph = given.training.session.graph;
    this.#onSignal = () => this.#stopBySignal();
    const { ending, training } = given;
    ending.mayFinish = () => !training.session.isRecovering;
    this.#life = this.#faceOf(given);
  }

  #faceOf(given: MonitoredTraining): Training {
    const { training, hooks, ending, signal, writers } = given;
    const graceMs = given.stopGracePeriodSecs * 1000;
    const inTime = async (what: string, work: PromiseLike<unknown>) =>
      withDeadline(Promise.resolve(work), what, { timeoutMs: graceMs });
    return new Training(training, {
      ...given,
      policy: POLICY,
      hookEndMs: graceMs,
      loopsEndMs: graceMs / 2,
      savesLast: () => hooks.some((hook) => hook.savesLast),
      endSteps: async (hasFailed) => {
        if (this.#running.size > 0)
          await inTime('Waiting for steps in flight', Promise.allSettled(this.#running));
        ending.finished();
        // A step that has failed meanwhile: what it has computed must not be saved.
        if (!hasFailed && this.#failure) throw this.#failure.error;
      },
      close: async () => {
        signal?.removeEventListener('abort', this.#onSignal);
        ending.cancel('the session was closed');
        try {
          await inTime('Closing the session', training[Symbol.asyncDispose]());
        } finally {
          await inTime('Closing event files', writers.close());
        }
      },
    });
  }

  /** Resolves when every variable has a value. A start that fails ends training. @internal */
  async ready(): Promise<void> {
    await this.#life.ready().catch((error: unknown) => this.#life.end({ error }));
    const { signal } = this.#given;
    if (signal?.aborted) this.#onSignal();
    else signal?.addEventListener('abort', this.#onSignal, { once: true });
  }

  /** Where the steps of this task pause for a consistent snapshot. @internal */
  get gate(): StepGate | undefined {
    return this.#given.training.gate;
  }

  /** The number of recoveries from a loss. */
  get recoveries(): number {
    return this.#given.training.session.recoveries;
  }

  /** The underlying session, for runs that are not training steps and call no hooks. */
  get rawSession(): TrainingRunner {
    return this.#given.training.runner;
  }

  /** Runs in the background that survive the loss of a ps and do not pause for snapshots. @internal */
  get background(): TrainingRunner {
    return this.#given.training.background;
  }

  shouldStop(): boolean {
    return this.#stop || this.#isClosing || this.#given.coordinator.shouldStop();
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
      session: this.#given.training.runner,
      runWithHooks: (fetches, options = {}) => this.#runOnce(fetches, options),
      requestStop: () => this.requestStop(),
    };
    return this.#step(async () => stepFn(context), {});
  }

  async #runOnce<const F extends Fetches>(fetches: F, options: MonitoredRunOptions): Promise<FetchResult<F>> {
    const { training, hooks, coordinator, ending } = this.#given;
    const context = new SessionRunContext(
      training.runner,
      { fetches, feeds: options.feeds },
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
      if (this.#stop && this.#running.size === 0) this.#given.ending.finished();
    };
    running.then(forget, forget);
    return running;
  }

  async #refuse(): Promise<never> {
    this.#given.coordinator.raiseRequestedException();
    throw invalid('run was called after the end of training', {
      hint: 'Check session.shouldStop() before each run.',
    });
  }

  async #persist<T>(body: () => Promise<T>, options: MonitoredRunOptions): Promise<T> {
    const { training } = this.#given;
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
    const { ending, signal } = this.#given;
    const isStopped = signal?.aborted || ending.signal.aborted;
    const isCancelled = isStopped && isShoalError(error, 'SHOAL_ABORTED');
    return isCleanStop(error) || isCancelled;
  }

  #stopBySignal(): void {
    this.#stop = true;
    if (this.#running.size === 0) this.#given.ending.finished();
  }

  /** Ends the session. After an error, given here or of the last run, the hooks' `end` is not called. */
  close(options: { readonly error?: unknown } = {}): Promise<void> {
    if (options.error !== undefined && !this.isCleanEnd(options.error)) {
      this.#failure = { error: options.error };
    }
    this.#isClosing = true;
    return this.#life.end(this.#failure);
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
