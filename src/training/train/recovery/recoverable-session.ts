/**
 * Runs that survive the loss of a ps. A run that fails because the cluster changed is repeated when the cluster is
 * complete and every variable has a value. The chief restores variables that have no value from a checkpoint, or
 * initializes them if there is none; each task initializes its local variables; the other tasks wait.
 *
 * `run` is a training step and passes the gate, if there is one. `runUngated` is for everything else.
 */
import { setMaxListeners } from 'node:events';
import { withDeadline } from '../../../base/async/deadline.js';
import { joinSignals } from '../../../base/async/joined-signal.js';
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Fetch, Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { Runner, RunOptions } from '../../../tensorflow/session/runner.js';
import { READ_STEP_MS, readGlobalStep, type StepReader } from './read-global-step.js';
import { Readiness, type ReadinessOptions } from './readiness.js';
import { readsOnly } from './reads-only.js';
import type { StepGate } from './steps/step-gate.js';
import { StepLimit, StepTimes } from './steps/step-limit.js';

export interface RecoverableOptions extends Omit<ReadinessOptions, 'isRecoverable'> {
  readonly runner: Runner;
  readonly graph: Graph;
  /**
   * A run that takes longer is aborted, and the cluster checked. Infinity: no limit. Default: derived from recent steps
   * (see step-limit).
   */
  readonly stepMs?: number;
  /** The minimum of the derived limit; default: 60 s. */
  readonly stepFloorMs?: number;
  /**
   * Whether all tasks that a step needs are alive. While they are, a step that reaches its limit three times in a row
   * fails with an error; default: it is repeated without end.
   */
  readonly isComplete?: () => boolean;
  /**
   * The ps that are known to be lost. A step that would need them begins a recovery, which ends saves; in the session it
   * would only wait. Default: none.
   */
  readonly lostPs?: () => readonly string[];
  /** Pauses steps during a snapshot. */
  readonly gate?: StepGate;
  /** Cancels the wait of a step that is paused; default: `signal`. */
  readonly stop?: AbortSignal;
  /**
   * Called when all variables have values: at the start, and with `again` after each recovery. Runs of this session
   * wait for it, so it must use the runner directly.
   */
  readonly onReady?: (again: boolean) => Promise<void> | void;
  /** Called before a recovery begins, to end work that needs a complete cluster, such as a save. */
  readonly onLost?: () => Promise<void> | void;
  /** How often the input was lost with a session; it restarts in the next session. */
  readonly inputReleases?: () => number;
  /** Whether a change of the cluster explains an error. */
  readonly isRecoverable?: (error: unknown) => boolean;
  /** Called after each training step, with its duration; default: none. */
  readonly onStepTime?: (ms: number) => void;
  /** Called after each recovery, with its duration. Default: a line without details is logged. */
  readonly onRecovered?: (ms: number) => Promise<void> | void;
}

/** What a step does before and after its run. */
export interface StepParts<R> {
  /** Called immediately before the run. If it throws, the step fails without the run. */
  readonly before?: () => void;
  /** Part of the step: a pause waits for it. */
  readonly after?: (result: R) => Promise<void>;
}

/** How often `onReady` may fail in a row. */
const MAX_FAILURES = 3;

export class RecoverableSession {
  readonly graph: Graph;
  readonly #options: RecoverableOptions;
  readonly #readiness: Readiness;
  /** Reads the global step without waiting for a recovery. */
  readonly #counter: StepReader;
  readonly #isRecoverable: (error: unknown) => boolean;
  readonly #limit: StepLimit;
  /** Errors of steps that were aborted at the limit. */
  readonly #timedOut = new WeakSet<object>();
  #wasReady = false;
  #recovering: Promise<void> | undefined;
  #recoveries = 0;
  /** Ends the steps that are running. */
  #steps: StepSignals;
  /** `inputReleases` at the last readiness. */
  #releases: number | undefined;

  constructor(options: RecoverableOptions) {
    this.#options = options;
    this.#steps = stepSignals(options.signal);
    this.graph = options.graph;
    this.#isRecoverable = options.isRecoverable ?? isRecoverable;
    this.#readiness = new Readiness({ ...options, isRecoverable: this.#isRecoverable });
    const { runner, globalStep, graph } = options;
    this.#counter = { graph, globalStep, run: (fetches, how) => runner.run(fetches, how) };
    const { gate, stepMs: fixedMs, stepFloorMs: floorMs } = options;
    this.#limit = new StepLimit(gate?.times ?? new StepTimes(), { fixedMs, floorMs });
  }

  /** How often the cluster has recovered. */
  get recoveries(): number {
    return this.#recoveries;
  }

  /** The current time limit of a run. */
  get stepLimitMs(): number {
    return this.#limit.ms;
  }

  /** Whether a recovery, or the start, is in progress. */
  get isRecovering(): boolean {
    return this.#recovering !== undefined;
  }

  /** Resolves when every variable has a value. */
  async ready(): Promise<void> {
    if (this.#wasReady) return;
    await this.#makeReady();
  }

  /** A training step: passes the gate, and is repeated until it succeeds. Plain reads of variables bypass the gate. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    if (this.#options.gate && !options.targets && readsOnly(fetches))
      return this.runUngated(fetches, options);
    return this.#repeat(() => this.attempt(fetches, options), options);
  }

  /** A run that is not a training step: a pause neither blocks it nor waits for it. */
  runUngated<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#repeat(() => this.#runOnce(fetches, options), options);
  }

  /**
   * A training step that is tried once; pass an error to `recover`. The parts of the step around its run happen behind
   * the gate too.
   */
  async attempt<const F extends Fetches>(
    fetches: F,
    options: RunOptions = {},
    around: StepParts<FetchResult<F>> = {},
  ): Promise<FetchResult<F>> {
    await this.ready();
    const { gate } = this.#options;
    if (!gate) return this.#runStep(fetches, options, around);
    await this.#enterWith(gate, options);
    try {
      const result = await this.#runStep(fetches, options, around);
      // The step has succeeded: if its number cannot be read, the next step reports it.
      if (gate.needsStep) await this.#reportStep(gate).catch(() => {});
      return result;
    } finally {
      gate.leave();
    }
  }

  async #runStep<const F extends Fetches>(
    fetches: F,
    options: RunOptions,
    { before, after }: StepParts<FetchResult<F>>,
  ): Promise<FetchResult<F>> {
    if (this.#recovering) await this.#recovering;
    const lost = this.#options.lostPs?.() ?? [];
    if (lost.length > 0)
      throw new ShoalError(
        'SHOAL_TF_UNAVAILABLE',
        `${lost.join(', ')} ${lost.length === 1 ? 'is' : 'are'} lost`,
      );
    before?.();
    const begun = performance.now();
    const { own, all } = this.#steps;
    const result = await this.#runOnce(fetches, options, all).catch((error: unknown) => {
      const isEnded = own.signal.aborted && !options.signal?.aborted && !this.#options.signal?.aborted;
      if (isEnded && isShoalError(error, 'SHOAL_ABORTED'))
        throw new ShoalError('SHOAL_TF_ABORTED', 'it was ended by a recovery', { cause: own.signal.reason });
      if (options.timeoutMs === undefined && isDeadline(error)) this.#timedOut.add(error as ShoalError);
      throw error;
    });
    const ms = performance.now() - begun;
    this.#limit.completed(ms);
    this.#options.onStepTime?.(ms);
    await after?.(result);
    return result;
  }

  async #enterWith(gate: StepGate, { signal: own }: RunOptions): Promise<void> {
    const { stop, signal } = this.#options;
    if (stop || !signal || !own) return this.#enter(gate, stop ?? signal ?? own);
    using either = joinSignals(signal, own);
    await this.#enter(gate, either.signal);
  }

  /** A step that waits for a recovery does not count as running: a pause does not wait for it. */
  async #enter(gate: StepGate, signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      if (this.#recovering) await this.#recovering;
      if (gate.needsStep) await this.#reportStep(gate);
      if (!(await gate.enter(signal))) continue;
      if (!this.#recovering) return;
      gate.leave();
    }
  }

  /** Whether a variable has no value any more, or that cannot be found out because a ps is lost. */
  async hasLostValues(): Promise<boolean> {
    try {
      return await this.#readiness.hasMissing();
    } catch (error) {
      if (!this.#isRecoverable(error)) throw error;
      return true;
    }
  }

  /** Recovers the cluster after an error that a change of the cluster explains; rethrows any other error. */
  async recover(error: unknown, options: RunOptions = {}): Promise<void> {
    const ownDeadline = options.timeoutMs !== undefined && isDeadline(error);
    const stopped = this.#options.signal?.aborted || options.signal?.aborted;
    const isExplained = this.#isRecoverable(error) || this.#hasLostInput(error);
    if (stopped || ownDeadline || !isExplained) throw error;
    // Concurrent steps reach their limits together: they count once.
    if (this.#timedOut.has(error as object) && !this.#recovering)
      this.#limit.expired(this.#options.isComplete?.() ?? false);
    // Concurrent steps fail together, for one reason.
    this.#options.log?.(
      `a step failed: ${firstLineOf(error)}; waiting for the cluster`,
      this.#recovering ? 'debug' : 'warn',
    );
    // Others may wait for the same recovery: the caller's signal ends its own wait only.
    await withDeadline(this.#makeReady(), 'Waiting for the cluster', { signal: options.signal });
  }

  /**
   * Recovers the cluster after an error of a run beside the steps. With `endsSteps` those that are running end and are made
   * again: they have read values that the recovery may replace.
   */
  async recoverBeside(error: unknown, { endsSteps }: { readonly endsSteps: boolean }): Promise<void> {
    const recovered = this.recover(error);
    if (endsSteps && this.#recovering) {
      this.#steps.own.abort(error);
      this.#steps = stepSignals(this.#options.signal);
    }
    await recovered;
  }

  /** A session may be lost while no step is running: the next step then finds uninitialized iterators. */
  #hasLostInput(error: unknown): boolean {
    return (
      isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION') &&
      this.#options.inputReleases?.() !== this.#releases
    );
  }

  async #repeat<T>(run: () => Promise<T>, options: RunOptions): Promise<T> {
    await this.ready();
    for (;;) {
      try {
        return await run();
      } catch (error) {
        await this.recover(error, options);
      }
    }
  }

  /** `signal` ends the run, as that of its options does. */
  async #runOnce<const F extends Fetches>(
    fetches: F,
    options: RunOptions,
    signal = this.#options.signal,
  ): Promise<FetchResult<F>> {
    const { runner } = this.#options;
    if (this.#recovering) await this.#recovering;
    const stepMs = this.#limit.ms;
    const either = signal && options.signal ? joinSignals(signal, options.signal) : undefined;
    const until = either?.signal ?? signal ?? options.signal;
    try {
      return (await runner.run(fetches as Fetch, {
        ...(Number.isFinite(stepMs) ? { timeoutMs: stepMs } : {}),
        ...options,
        signal: until,
      })) as FetchResult<F>;
    } finally {
      either?.[Symbol.dispose]();
    }
  }

  /** Reports the global step to a gate that pauses at a step. */
  async #reportStep(gate: StepGate): Promise<void> {
    const report = gate.stepReporter();
    report((await readGlobalStep(this.#counter, { timeoutMs: READ_STEP_MS })) ?? 0);
  }

  /** One recovery at a time, regardless of how many runs failed. */
  #makeReady(): Promise<void> {
    this.#recovering ??= this.#becomeReady().finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  async #becomeReady(): Promise<void> {
    const again = this.#wasReady;
    const begun = performance.now();
    if (again) await this.#options.onLost?.();
    this.#releases = this.#options.inputReleases?.();
    for (let failures = 0; ; failures++) {
      await this.#readiness.reach(again);
      try {
        await this.#options.onReady?.(again);
        if (again) await this.#reportRecovery(performance.now() - begun);
        break;
      } catch (error) {
        // A ps may have been lost meanwhile.
        if (failures === MAX_FAILURES || this.#options.signal?.aborted || !this.#isRecoverable(error))
          throw error;
        this.#options.log?.(
          `preparing to train failed: ${firstLineOf(error)}; waiting for the cluster`,
          'warn',
        );
        await this.#options.onLost?.();
      }
    }
    if (again) this.#recoveries += 1;
    this.#wasReady = true;
  }

  async #reportRecovery(ms: number): Promise<void> {
    const { onRecovered, log } = this.#options;
    if (onRecovered) await onRecovered(ms);
    else log?.('the cluster is complete again; training continues');
  }
}

interface StepSignals {
  /** Ends the steps that are running. */
  readonly own: AbortController;
  /** Fires with the session's signal too; one for all steps, because runs remember it. */
  readonly all: AbortSignal;
}

function stepSignals(signal: AbortSignal | undefined): StepSignals {
  const own = new AbortController();
  const all = signal ? AbortSignal.any([signal, own.signal]) : own.signal;
  // Every step in flight adds a listener.
  setMaxListeners(0, own.signal, all);
  return { own, all };
}

/** Whether a change of the cluster explains an error. */
export function isRecoverable(error: unknown): boolean {
  if (isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION'))
    return /Could not find variable|uninitialized/i.test(error.message);
  // An update of a variable on a restarted ps that holds no variables yet.
  if (isShoalError(error, 'SHOAL_TF_NOT_FOUND')) return /Container \S+ does not exist/.test(error.message);
  // An enqueue into a closed queue fails with the same code as the loss of a peer.
  if (isShoalError(error, 'SHOAL_TF_CANCELLED')) return !/queue/i.test(error.message);
  return (
    isShoalError(error, 'SHOAL_TF_UNAVAILABLE') ||
    isShoalError(error, 'SHOAL_TF_ABORTED') ||
    isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED') ||
    isShoalError(error, 'SHOAL_DISPOSED')
  );
}

const isDeadline = (error: unknown): boolean =>
  error instanceof ShoalError && ['SHOAL_TF_DEADLINE_EXCEEDED', 'SHOAL_TIMEOUT'].includes(error.code);
