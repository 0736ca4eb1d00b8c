/**
 * Runs that survive the loss of a ps. A run that fails because the cluster changed is run again when the
 * cluster is whole and every variable has a value. The chief gives values to variables that have none, from a
 * checkpoint where there is one; each task to those that are its own; the others wait.
 *
 * `run` is a training step: it goes through the gate, where there is one. `aside` is for all else: it goes past it.
 */
import { firstLineOf, isShoalError, ShoalError } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Fetch, Fetches, FetchResult } from '../../session/fetches.js';
import type { RunOptions } from '../../session/session.js';
import { getGlobalStep } from '../../variables/global-step.js';
import type { Variable } from '../../variables/variable.js';
import { Readiness, type ReadinessOptions } from './readiness.js';
import { readsOnly } from './reads-only.js';
import type { StepGate } from './step-gate.js';
import { StepLimit, StepTimes } from './step-limit.js';

/** What this needs of a session: one over a cluster, or a plain one. */
export interface Runner {
  run<const F extends Fetches>(fetches: F, options?: RunOptions): Promise<FetchResult<F>>;
}

export interface RecoverableOptions extends Omit<ReadinessOptions, 'isRecoverable'> {
  readonly runner: Runner;
  readonly graph: Graph;
  /**
   * A run that takes longer is given up, and the cluster looked at. Infinity: none is. Default: derived from the steps that
   * were made (see step-limit).
   */
  readonly stepMs?: number | undefined;
  /** The lowest limit that is derived from steps; default: 60 s. */
  readonly stepFloorMs?: number | undefined;
  /**
   * Whether all tasks that a step needs are there. While they are, steps that reach their limit three times in a row fail
   * with an error; default: they are tried for ever.
   */
  readonly isComplete?: () => boolean;
  /** Where steps rest while a cut is made. */
  readonly gate?: StepGate;
  /**
   * Called when all variables have values: at the start, and `again` after each recovery. Runs wait for it, so it
   * speaks to the runner itself.
   */
  readonly onReady?: (again: boolean) => Promise<void> | void;
  /** Called before a recovery begins: what needs a whole cluster, a save above all, is to end first. */
  readonly onLost?: () => Promise<void> | void;
  /** How often the input has gone with a session: it is to begin anew in the next. */
  readonly inputReleases?: (() => number) | undefined;
  /** Which errors a change of the cluster explains. */
  readonly isRecoverable?: (error: unknown) => boolean;
}

/** What belongs to a step besides its run. */
export interface StepParts<R> {
  /** Called when nothing stands between the step and its run; what it throws is thrown in place of the run. */
  readonly before?: (() => void) | undefined;
  /** The step is over, for whoever wants all steps to rest, when this has ended. */
  readonly after?: ((result: R) => Promise<void>) | undefined;
}

export class RecoverableSession {
  readonly graph: Graph;
  readonly #options: RecoverableOptions;
  readonly #readiness: Readiness;
  readonly #globalStep: Variable<'int64'> | undefined;
  readonly #isRecoverable: (error: unknown) => boolean;
  readonly #limit: StepLimit;
  /** Errors of steps that were given up at the limit. */
  readonly #tooLong = new WeakSet<object>();
  #wasReady = false;
  #recovering: Promise<void> | undefined;
  #recoveries = 0;
  /** As of the last readiness. */
  #releases: number | undefined;

  constructor(options: RecoverableOptions) {
    this.#options = options;
    this.graph = options.graph;
    this.#isRecoverable = options.isRecoverable ?? isRecoverable;
    this.#readiness = new Readiness({ ...options, isRecoverable: this.#isRecoverable });
    this.#globalStep = getGlobalStep(options.graph);
    const { gate, stepMs: fixedMs, stepFloorMs: floorMs } = options;
    this.#limit = new StepLimit(gate?.times ?? new StepTimes(), { fixedMs, floorMs });
  }

  /** How often the cluster was lost and found again. */
  get recoveries(): number {
    return this.#recoveries;
  }

  /** How long a run may take at this moment, in milliseconds. */
  get stepLimitMs(): number {
    return this.#limit.ms;
  }

  /** Whether a recovery is under way, or the first readiness. */
  get isRecovering(): boolean {
    return this.#recovering !== undefined;
  }

  /** Resolves when every variable has a value. */
  async ready(): Promise<void> {
    if (this.#wasReady) return;
    await this.#makeReady();
  }

  /** A training step: repeated until it went through, behind the gate. What only reads variables goes past it. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    if (this.#options.gate && !options.targets && readsOnly(fetches))
      return this.runUngated(fetches, options);
    return this.#repeat(() => this.attempt(fetches, options), options);
  }

  /** A run that is no training step: a park does not hold it, and need not wait for it. */
  runUngated<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#repeat(() => this.#runOnce(fetches, options), options);
  }

  /**
   * A training step that is tried once: what fails is for `recover`. What belongs to the step around its run is done
   * behind the gate too.
   */
  async attempt<const F extends Fetches>(
    fetches: F,
    options: RunOptions = {},
    around: StepParts<FetchResult<F>> = {},
  ): Promise<FetchResult<F>> {
    await this.ready();
    const { gate } = this.#options;
    if (!gate) return this.#whole(fetches, options, around);
    await this.#pass(gate, this.#signal(options));
    try {
      const result = await this.#whole(fetches, options, around);
      // The step is made: where its number can't be read, the next one to enter tells it.
      if (gate.wantsStep) await this.#tellStep(gate).catch(() => {});
      return result;
    } finally {
      gate.leave();
    }
  }

  async #whole<const F extends Fetches>(
    fetches: F,
    options: RunOptions,
    { before, after }: StepParts<FetchResult<F>>,
  ): Promise<FetchResult<F>> {
    if (this.#recovering) await this.#recovering;
    before?.();
    const begun = performance.now();
    const result = await this.#runOnce(fetches, options).catch((error: unknown) => {
      if (options.timeoutMs === undefined && isDeadline(error)) this.#tooLong.add(error as ShoalError);
      throw error;
    });
    this.#limit.completed(performance.now() - begun);
    await after?.(result);
    return result;
  }

  /** A step that waits for a recovery is not under way: a park does not wait for it. */
  async #pass(gate: StepGate, signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      if (this.#recovering) await this.#recovering;
      if (gate.wantsStep) await this.#tellStep(gate);
      await gate.enter(signal);
      if (!this.#recovering) return;
      gate.leave();
    }
  }

  /** Makes the cluster whole after an error that a change of it explains; throws any other. */
  async recover(error: unknown, options: RunOptions = {}): Promise<void> {
    const ownDeadline = options.timeoutMs !== undefined && isDeadline(error);
    const stopped = this.#options.signal?.aborted || options.signal?.aborted;
    const isExplained = this.#isRecoverable(error) || this.#hasInputGone(error);
    if (stopped || ownDeadline || !isExplained) throw error;
    // Steps under way at once end at their limits together: they count as one.
    if (this.#tooLong.has(error as object) && !this.#recovering)
      this.#limit.expired(this.#options.isComplete?.() ?? false);
    this.#options.log?.(`a step failed: ${firstLineOf(error)}; waiting for the cluster`);
    await this.#makeReady();
  }

  /** The session that was ready may go while no step is under way: the next step meets iterators without a beginning. */
  #hasInputGone(error: unknown): boolean {
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

  async #runOnce<const F extends Fetches>(fetches: F, options: RunOptions): Promise<FetchResult<F>> {
    const { runner } = this.#options;
    if (this.#recovering) await this.#recovering;
    const signal = this.#signal(options);
    const stepMs = this.#limit.ms;
    return runner.run(fetches as Fetch, {
      ...(Number.isFinite(stepMs) ? { timeoutMs: stepMs } : {}),
      ...options,
      ...(signal ? { signal } : {}),
    }) as Promise<FetchResult<F>>;
  }

  #signal({ signal: own }: RunOptions): AbortSignal | undefined {
    const { signal } = this.#options;
    return signal && own ? AbortSignal.any([signal, own]) : (own ?? signal);
  }

  /** The gate may only let by who has not reached its step. */
  async #tellStep(gate: StepGate): Promise<void> {
    if (!this.#globalStep) return;
    const step = await this.#options.runner.run(this.#globalStep.toOutput(), { timeoutMs: 30_000 });
    gate.saw(step.number());
  }

  /** One recovery at a time, however many runs failed. */
  #makeReady(): Promise<void> {
    this.#recovering ??= this.#becomeReady().finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  async #becomeReady(): Promise<void> {
    const again = this.#wasReady;
    if (again) await this.#options.onLost?.();
    this.#releases = this.#options.inputReleases?.();
    await this.#readiness.reach(again);
    await this.#options.onReady?.(again);
    if (again) {
      this.#recoveries += 1;
      this.#options.log?.('the cluster is whole again; training goes on');
    }
    this.#wasReady = true;
  }
}

/** Errors that a change of the cluster explains. */
export function isRecoverable(error: unknown): boolean {
  if (isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION'))
    return /Could not find variable|uninitialized/i.test(error.message);
  // An update of a variable, before any read, on a ps that was started again and holds nothing yet.
  if (isShoalError(error, 'SHOAL_TF_NOT_FOUND')) return /Container \S+ does not exist/.test(error.message);
  // Who enqueues into a queue that was closed is told so in the same way as who loses a peer.
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
