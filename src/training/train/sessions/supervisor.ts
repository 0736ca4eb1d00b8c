/**
 * TensorFlow 1's Supervisor: creates a session with initialized or restored variables, and saves checkpoints and
 * summaries and counts steps in the background while the caller trains.
 *
 *   const sv = new Supervisor({ isChief, logdir, saver, saveModelSecs: 60 });
 *   await sv.managedSession(server, async (session) => {
 *     while (!sv.shouldStop()) await session.run(trainOp);
 *   });
 *
 * The end of the input stops it without an error. After training without an error the chief saves a last checkpoint.
 */

import { throwIfAborted, withDeadline } from '../../../base/async/deadline.js';
import { describeError, invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { defaultLog, type Log } from '../../../base/text/log.js';
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { FileWriter, SummaryStep } from '../../../tensorflow/summary/file-writer.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { checkGlobalStep, getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { LAST_SAVE_MS } from '../checkpoints/retrying-saver.js';
import { Saver } from '../checkpoints/saver.js';
import type { EndPolicy } from '../core/lifecycle.js';
import { openTraining, PLACE_OPTIONS, type PlaceOptions } from '../core/open-training.js';
import { type QueueRunnerLike, startQueueRunners } from '../core/queue-runners.js';
import { SCAFFOLD_OPTIONS, Scaffold, type ScaffoldOptions } from '../core/scaffold.js';
import { scaffoldValues } from '../core/scaffold-values.js';
import { type Face, Training } from '../core/training.js';
import { SummaryWriters } from '../hooks/summary-writers.js';
import { Coordinator } from '../recovery/coordinator.js';
import { readGlobalStep } from '../recovery/read-global-step.js';
import { StepEnding } from '../recovery/steps/step-ending.js';
import { Server, serverAt } from '../task/server.js';
import type { SaverLike } from '../task/training-runner.js';
import { ManagedSession } from './managed-session.js';
import { StandardServices } from './standard-services.js';

export interface SupervisorOptions
  extends Omit<ScaffoldOptions, 'summaryOp' | 'saver'>,
    Omit<PlaceOptions, 'server' | 'master'> {
  /** The graph to train; default: the current graph. */
  readonly graph?: Graph;
  /** Whether this task is the chief; default: true. */
  readonly isChief?: boolean;
  /** The directory of checkpoints and event files. Default: none, nothing is saved. */
  readonly logdir?: string;
  /** The summaries to write; null: none. Default: all summaries of the graph. */
  readonly summaryOp?: Output<'string'> | null;
  /** Saves and restores variables; null: none. Default: a `Saver` of all variables. */
  readonly saver?: SaverLike | null;
  /** The step counter, an integer; null: none. Default: the global step of the graph. */
  readonly globalStep?: Variable | null;
  /** Seconds between checkpoints; 0: none. Default: 600. */
  readonly saveModelSecs?: number;
  /**
   * How long the last save is tried again if a disk is full or does not work, or a task cannot be reached; meanwhile the
   * values stay in memory. Default: 1800.
   */
  readonly lastSaveSecs?: number;
  /** Seconds between summaries; 0: no summaries and no step counter. Default: 120. */
  readonly saveSummariesSecs?: number;
  /** How long loops may take to stop. Default: 120. */
  readonly stopGraceSecs?: number;
  /** The name of checkpoints, before the step; default: `model.ckpt`. */
  readonly checkpointBasename?: string;
  /** Cancels the start of a session and stops training; default: none. */
  readonly signal?: AbortSignal;
  /** Receives log lines; default: `console.error`, of lines of at least the level SHOAL_LOG_LEVEL. */
  readonly log?: Log;
}

/** Where a managed session runs: a task's server, the address of a TensorFlow server, or this process. */
export type ManagedPlace = Server | string | undefined;

export interface ManagedSessionOptions {
  /** Whether the chief saves checkpoints and summaries. Default: true. */
  readonly startStandardServices?: boolean;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<SupervisorOptions> = {
  ...SCAFFOLD_OPTIONS,
  ...PLACE_OPTIONS,
  graph: true,
  isChief: true,
  logdir: true,
  globalStep: true,
  saveModelSecs: true,
  lastSaveSecs: true,
  saveSummariesSecs: true,
  stopGraceSecs: true,
  checkpointBasename: true,
  signal: true,
  log: true,
};

/** For these null is none, not the default. */
const MEANINGFUL_NULLS = ['summaryOp', 'saver', 'globalStep'] as const;

/** Its loops save, and it has no hooks. */
const POLICY: EndPolicy = { loopsEnd: 'before save', endsHooksUnsaved: false, leavesFailed: true };

export class Supervisor {
  readonly isChief: boolean;
  readonly graph: Graph;
  readonly coordinator: Coordinator;
  readonly globalStep: Variable | undefined;
  readonly savePath: string | undefined;
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  readonly #writers = new SummaryWriters();
  readonly #scaffold: Scaffold;
  readonly #ending: StepEnding;
  #services: StandardServices | undefined;
  #session: ManagedSession | undefined;
  #life: Training | undefined;

  constructor(given: OrNull<SupervisorOptions> = {}) {
    const options = knownOptions(given, OPTIONS, 'a Supervisor', MEANINGFUL_NULLS);
    this.#options = options;
    const { graph = currentGraph(), isChief = true, logdir, checkpointBasename = 'model.ckpt' } = options;
    const { summaryOp, saver, globalStep = getGlobalStep(graph) } = options;
    this.#ending = new StepEnding(options.signal);
    this.#ending.mayFinish = () => this.#session !== undefined && !this.#session.isWaiting;
    this.isChief = isChief;
    this.graph = graph;
    this.#log = options.log ?? defaultLog();
    this.coordinator = new Coordinator({ log: this.#log });
    this.globalStep = globalStep ? checkGlobalStep(globalStep) : undefined;
    this.savePath = logdir === undefined ? undefined : `${logdir}/${checkpointBasename}`;
    const { initOp, initFeedDict, initFn, readyOp, readyForLocalInitOp, localInitOp, localInitFeedDict } =
      options;
    this.#scaffold = new Scaffold({
      initOp,
      initFeedDict,
      initFn,
      readyOp,
      readyForLocalInitOp,
      localInitOp,
      localInitFeedDict,
      summaryOp: summaryOp || undefined,
      saver: saver || undefined,
    });
  }

  get #lastSaveMs(): number {
    const { lastSaveSecs } = this.#options;
    return lastSaveSecs === undefined ? LAST_SAVE_MS : lastSaveSecs * 1000;
  }

  get coord(): Coordinator {
    return this.coordinator;
  }

  /** The event file of the chief, if there is a logdir. */
  get summaryWriter(): FileWriter | undefined {
    const { logdir } = this.#options;
    return this.isChief && logdir !== undefined ? this.#writers.get(logdir) : undefined;
  }

  get summaryOp(): Output<'string'> | undefined {
    const { summaryOp } = this.#options;
    return summaryOp === null ? undefined : (this.#scaffold.summaryOp as Output<'string'> | undefined);
  }

  get saver(): SaverLike | undefined {
    return this.#options.saver === null ? undefined : this.#scaffold.saver;
  }

  shouldStop(): boolean {
    return this.coordinator.shouldStop();
  }

  requestStop(error?: unknown): void {
    this.coordinator.requestStop(error);
  }

  waitForStop(timeoutMs?: number): Promise<boolean> {
    return this.coordinator.waitForStop(timeoutMs);
  }

  stopOnException<T>(body: () => T | Promise<T>): Promise<T | undefined> {
    return this.coordinator.stopOnException(body);
  }

  /** Runs `target` repeatedly until the stop: every so many seconds, or without a pause (null). */
  loop(timerIntervalSecs: number | null, target: () => unknown): void {
    this.coordinator.loop(target, timerIntervalSecs === null ? {} : { everySecs: timerIntervalSecs });
  }

  /** Writes a summary that was computed by the caller. */
  async summaryComputed(
    session: ManagedSession,
    summary: Tensor | Uint8Array,
    globalStep?: SummaryStep,
  ): Promise<void> {
    if (!this.summaryWriter) {
      throw invalid('No summary writer: this supervisor has no logdir, or is not the chief');
    }
    const step = globalStep ?? (await readGlobalStep(session.rawSession)) ?? 0;
    this.summaryWriter.addSummary(summary, step);
  }

  /**
   * A session for training. With a function the session is closed when the function returns, like Python's `with`. An
   * error of the function or of the services is then thrown; the end of the input is not an error.
   */
  managedSession(place?: ManagedPlace | null, options?: ManagedSessionOptions): Promise<ManagedSession>;
  managedSession<T>(
    place: ManagedPlace | null,
    body: (session: ManagedSession) => Promise<T>,
    options?: ManagedSessionOptions,
  ): Promise<T | undefined>;
  async managedSession<T>(
    place?: ManagedPlace | null,
    bodyOrOptions?: ((session: ManagedSession) => Promise<T>) | ManagedSessionOptions,
    options: ManagedSessionOptions = {},
  ): Promise<ManagedSession | T | undefined> {
    if (typeof bodyOrOptions !== 'function') return this.prepareOrWaitForSession(place, bodyOrOptions);
    const session = await this.prepareOrWaitForSession(place, options);
    let result: T | undefined;
    try {
      result = await bodyOrOptions(session);
    } catch (error) {
      // After an external stop, runs fail with an abort error, which is not reported.
      if (!this.#ending.signal.aborted) this.requestStop(error);
    }
    await session[Symbol.asyncDispose]();
    return result;
  }

  async prepareOrWaitForSession(
    place?: ManagedPlace | null,
    { startStandardServices = true }: ManagedSessionOptions = {},
  ): Promise<ManagedSession> {
    const { logdir, signal, maxWaitSecs = 7200, stepTimeoutSecs = 600 } = this.#options;
    throwIfAborted('Starting a managed session', signal);
    const makeSaver = this.#options.saver === null ? undefined : () => new Saver({ log: this.#log });
    this.#scaffold.finalize(this.graph, makeSaver);
    const server = place instanceof Server ? place : serverAt(place ?? undefined);
    const onSignal = () => this.coordinator.requestStop();
    signal?.addEventListener('abort', onSignal, { once: true });
    const training = await openTraining({
      ...this.#options,
      server,
      master: server || typeof place !== 'string' ? undefined : place,
      graph: this.graph,
      globalStep: this.globalStep,
      isChief: this.isChief,
      coordinator: this.coordinator,
      values: (runner) =>
        scaffoldValues(this.#scaffold, runner, {
          checkpointDir: this.saver ? logdir : undefined,
          recovery: this.#options.recovery,
          signal: this.#ending.signal,
          log: this.#log,
        }),
      maxWaitMs: maxWaitSecs * 1000,
      stepMs: stepTimeoutSecs * 1000,
      signal: this.#ending.signal,
      log: this.#log,
    });
    const life = new Training(training, this.#faceOf());
    this.#life = life;
    const session = new ManagedSession(training, async () => {
      try {
        await this.stop();
      } finally {
        signal?.removeEventListener('abort', onSignal);
        this.#ending.cancel('the session was closed');
        await session.close();
      }
    });
    this.#session = session;
    try {
      await life.ready().catch((error: unknown) => life.end({ error }));
      if (startStandardServices) await this.startStandardServices(session);
      this.startQueueRunners(session);
    } catch (error) {
      this.#ending[Symbol.dispose]();
      this.coordinator.requestStop();
      await session.close();
      await this.#writers.close();
      throw error;
    }
    return session;
  }

  /** Starts checkpoints, summaries and the step counter; on the chief, if there is a logdir. */
  async startStandardServices(session: ManagedSession): Promise<void> {
    const { saveModelSecs = 600, saveSummariesSecs = 120 } = this.#options;
    const writer = this.summaryWriter;
    if (!writer || this.savePath === undefined) return;
    this.#services = new StandardServices({
      session,
      coordinator: this.coordinator,
      writer,
      signal: this.#options.signal,
      log: this.#log,
      globalStep: this.globalStep,
      summaryOp: this.summaryOp,
      saver: this.saver,
      savePath: this.savePath,
      saveModelSecs,
      saveSummariesSecs,
      lastSaveMs: this.#lastSaveMs,
    });
    await this.#services.start();
  }

  /** Returns the loops that were started: none of those that the session has started already. */
  startQueueRunners(
    session: ManagedSession,
    queueRunners?: readonly QueueRunnerLike[] | null,
  ): readonly Promise<unknown>[] {
    const { coordinator } = this;
    return startQueueRunners(session, { coordinator, queueRunners: queueRunners ?? undefined });
  }

  /** Ends the services, saves the last checkpoint, and throws the first error of training. Idempotent. */
  async stop(): Promise<void> {
    this.coordinator.requestStop();
    if (this.#life) return this.#life.end();
    const { stopGraceSecs: stopGracePeriodSecs } = this.#options;
    try {
      await this.coordinator.join([], { stopGracePeriodSecs, ignoreLiveTasks: true });
    } finally {
      await this.#writers.close();
    }
  }

  #faceOf(): Face {
    const { stopGraceSecs = 120, logdir, saver, saveModelSecs = 600, signal } = this.#options;
    return {
      policy: POLICY,
      hooks: [],
      coordinator: this.coordinator,
      ending: this.#ending,
      signal,
      log: this.#log,
      loopsEndMs: stopGraceSecs * 1000,
      stays: this.isChief || (logdir !== undefined && saver !== null && saveModelSecs > 0),
      savesLast: () => this.#services?.saves ?? false,
      save: async () => {
        const timeoutMs = stopGraceSecs * 1000 + this.#lastSaveMs;
        const end = this.#services?.end();
        if (end) await withDeadline(end, 'The last checkpoint', { timeoutMs });
      },
      // The program may still use the session, and closes it.
      close: () => this.#writers.close().catch((error: unknown) => this.#log(describeError(error), 'warn')),
    };
  }
}
