/**
 * How the variables of a cluster get values. The chief restores or initializes the global variables, and each task its
 * local ones. The other tasks wait until a deadline, and log what they wait for.
 */
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { faultPoint } from '../../../base/async/fault-point.js';
import { firstLineOf, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { nativeCallQueue } from '../../../tensorflow/session/native-call-queue.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { type Counted, globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { reportUninitializedVariables } from '../../../tensorflow/variables/initialize.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables, localVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { ReplacedVariables } from './replaced-variables.js';

export interface ReadinessOptions extends Counted {
  readonly runner: Runner;
  readonly isChief: boolean;
  /** How long a recovery may take; default: 300 s. */
  readonly recoveryMs?: number;
  /** How long the start may take; default: `recoveryMs`. */
  readonly startMs?: number;
  /**
   * The chief calls this before it initializes global variables that have no value. True: all global variables, not
   * only the missing ones, were restored. False: there is nothing to restore.
   */
  readonly restore?: (missing: readonly Variable[], again: boolean) => Promise<boolean>;
  /** The step of the newest checkpoint; undefined if there is none. Default: none. */
  readonly newestStep?: () => Promise<number | undefined>;
  /** Whether the step had fallen when the former chief ended: the values that the ps have are not used. Default: none. */
  readonly hasFallen?: () => Promise<boolean>;
  /** Called when every variable has a value for the first time. Default: none. */
  readonly onFirstReady?: () => void;
  /** Called before and after the chief restores or initializes variables: their step may be lower. Default: none. */
  readonly onValues?: () => void;
  /**
   * How the chief initializes all global variables, of which the missing ones have no value; default: it runs their
   * initializers.
   */
  readonly initialize?: (missing: readonly Variable[], again: boolean) => Promise<void>;
  /**
   * The chief calls this when there is nothing to restore. It assigns values to some variables and returns them; their
   * initializers do not run. It is called after `initialize`, if given, because that op may initialize all variables.
   */
  readonly warmStart?: () => Promise<ReadonlySet<Variable>>;
  /** Returns the names of what must be ready before a task initializes its local variables, and is not. */
  readonly readyForLocalInitOp?: Output<'string'>;
  /** Local initialization of a task, of tables for example; runs before the initializers of its local variables. */
  readonly localInit?: (again: boolean) => Promise<void>;
  /** Returns the names of what must be ready in the end, and is not. */
  readonly readyOp?: Output<'string'>;
  readonly signal?: AbortSignal;
  readonly log?: Log;
  /** How often to log what this waits for; default: 10 s. */
  readonly progressMs?: number;
  /** Whether a change of the cluster explains an error. */
  readonly isRecoverable: (error: unknown) => boolean;
  /** Whether only variables without a value are initialized after a loss; default: false, all are. */
  readonly isPartial?: boolean;
  /** Whether there are no other tasks: unreachable stores are not waited for. */
  readonly isAlone?: boolean;
  /** Finds variables without values by the processes of the ps; default: all ps are asked. */
  readonly replaced?: ReplacedVariables;
}

/** A shorter wait is not logged: tasks that start together wait for each other. */
const QUIET_MS = 3000;
const RETRY = { baseMs: 50, maxMs: 1000 };
/** In a recovery the chief mostly needs less than a second once the tasks are back: the first polls are frequent. */
const POLL = { baseMs: 20, maxMs: 100 };
const MAX_POLLS = 50;
/**
 * Abandoned native calls that have not returned: with more of them for `ABANDONED_MS`, the process fails. Calls
 * abandoned with a lost session return when that session is closed.
 */
const MAX_ABANDONED = 8;
const ABANDONED_MS = 60_000;
/** Initializations after which missing values mean that the init op does not initialize all variables. */
const MAX_INITIALIZATIONS = 3;

/** What has been done to reach readiness. */
interface Progress {
  readonly again: boolean;
  /** Whether the replaced ps are known: from then on all ps are asked. */
  knowsReplaced: boolean;
  initializations: number;
  hasLocalInit: boolean;
  /** Whether the variables are known to be of one step. */
  isWhole: boolean;
}

export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #variables: readonly Variable[];
  /** Variables of this task alone, which it initializes itself. */
  readonly #local: ReadonlySet<Variable>;
  readonly #uninitialized: Output<'string'>;

  constructor(options: ReadinessOptions) {
    this.#options = options;
    const { graph } = options;
    this.#local = new Set(localVariables(graph));
    this.#variables = [...globalVariables(graph), ...this.#local];
    this.#uninitialized = graph.asDefault(() => reportUninitializedVariables(this.#variables));
  }

  /** Resolves when every variable has a value. */
  async reach(again: boolean): Promise<void> {
    const { recoveryMs = 300_000, startMs = recoveryMs, signal, log, progressMs = 10_000 } = this.#options;
    const limitMs = again ? recoveryMs : startMs;
    const progress: Progress = {
      again,
      knowsReplaced: false,
      initializations: 0,
      hasLocalInit: false,
      isWhole: false,
    };
    const begun = performance.now();
    let logged = { what: '', at: 0 };
    let stuckSince: number | undefined;
    let polls = 0;
    for (let attempt = 0; ; attempt++) {
      const isStuck = nativeCallQueue().abandoned > MAX_ABANDONED;
      stuckSince = isStuck ? (stuckSince ?? performance.now()) : undefined;
      if (stuckSince !== undefined && performance.now() - stuckSince > ABANDONED_MS)
        throw tooManyAbandonedCalls();
      let waitsFor: string | undefined;
      let cause: unknown;
      try {
        waitsFor = await this.#advance(progress);
        if (waitsFor === undefined) {
          if (!again && this.#options.isChief) this.#options.onFirstReady?.();
          return this.#options.replaced?.complete();
        }
      } catch (error) {
        if (signal?.aborted || !this.#isTransient(error)) throw error;
        cause = error;
      }
      const elapsed = performance.now() - begun;
      const what = waitsFor ?? `waiting for the cluster: ${firstLineOf(cause)}`;
      const isDue = what !== logged.what || elapsed - logged.at > progressMs;
      if (isDue && elapsed >= Math.min(QUIET_MS, progressMs)) {
        log?.(`${what} · ${Math.round(elapsed / 1000)} of ${Math.round(limitMs / 1000)} s`);
        logged = { what, at: elapsed };
      }
      if (elapsed > limitMs) throw notComplete(limitMs, waitsFor, cause);
      const isShort = again && waitsFor !== undefined && polls < MAX_POLLS;
      await sleep(isShort ? backoffMs(polls++, POLL) : backoffMs(attempt, RETRY), signal);
    }
  }

  /** Whether a variable has no value. */
  async hasMissing(): Promise<boolean> {
    return (await this.#missing()).length > 0;
  }

  /** An unreachable store may be on the lost ps itself. */
  #isTransient(error: unknown): boolean {
    const { isRecoverable, isAlone } = this.#options;
    return isRecoverable(error) || (!isAlone && isShoalError(error, 'SHOAL_UNREACHABLE'));
  }

  /** Does what is possible now; returns what it must wait for, if anything. */
  async #advance(progress: Progress): Promise<string | undefined> {
    const { isChief, readyForLocalInitOp, localInit, readyOp } = this.#options;
    const global = (await this.#replaced(progress)) ?? this.#globalOf(await this.#missing());
    if (global.length > 0) {
      if (!isChief) return `waiting for the chief to initialize or restore ${namesOf(global)}`;
      return (await this.#restoreOrInitialize(global, progress)) ?? this.#advance(progress);
    }
    if (isChief && !progress.isWhole && (await this.#isTorn())) {
      this.#options.log?.('the last step was applied on some ps only: going back to the last checkpoint');
      const all = this.#globalOf(this.#variables);
      return (await this.#restoreOrInitialize(all, progress)) ?? this.#advance(progress);
    }
    const reason = isChief && !progress.isWhole && !progress.again ? await this.#reasonToGoBack() : undefined;
    if (reason !== undefined) {
      this.#options.log?.(`${reason}: going back to the newest checkpoint`, 'warn');
      const all = this.#globalOf(this.#variables);
      return (await this.#restoreOrInitialize(all, progress)) ?? this.#advance(progress);
    }
    const early = await this.#notReady(readyForLocalInitOp);
    if (early) return early;
    if (localInit && !progress.hasLocalInit) await localInit(progress.again);
    progress.hasLocalInit = true;
    const local = await this.#missing();
    if (local.length > 0) {
      await this.#runInitializers(local.filter((variable) => this.#local.has(variable)));
      return this.#advance(progress);
    }
    return this.#notReady(readyOp);
  }

  /** The chief's part: values of a checkpoint, or initial values. Returns what failed, if anything. */
  async #restoreOrInitialize(missing: readonly Variable[], progress: Progress): Promise<string | undefined> {
    const { restore, initialize, warmStart, isPartial, log } = this.#options;
    const { again } = progress;
    this.#options.onValues?.();
    await this.#reset();
    if (await restore?.(missing, again)) {
      const left = this.#globalOf(await this.#missing());
      progress.isWhole = left.length === 0;
      this.#options.onValues?.();
      if (left.length === 0) this.#options.replaced?.complete();
      // Initial values beside restored ones would be an inconsistent state: wait, and restore again.
      return left.length > 0 ? `restored, but ${namesOf(left)} have no value; restoring again` : undefined;
    }
    if (progress.initializations++ === MAX_INITIALIZATIONS) {
      throw new ShoalError(
        'SHOAL_TF_FAILED_PRECONDITION',
        `The init op has run, but ${namesOf(missing)} still have no value`,
        { hint: 'Let the init op initialize every global variable, or omit it.' },
      );
    }
    const all = this.#globalOf(this.#variables);
    const others = isPartial ? [] : all.filter((variable) => !missing.includes(variable));
    if (again || others.length > 0)
      log?.(
        `lost ${namesOf(missing)}, and there is no checkpoint: ${
          isPartial
            ? 'restarting from their initial values; other variables keep theirs'
            : 'training restarts from initial values of all variables'
        }`,
        'warn',
      );
    progress.isWhole = true;
    await faultPoint('train.initialize');
    if (initialize) {
      await initialize(missing, again);
      await warmStart?.();
      this.#options.onValues?.();
      return undefined;
    }
    // Workers begin to train when every variable has a value, so the missing ones get theirs last.
    if (others.length > 0) await this.#runInitializers(others);
    const started = await warmStart?.();
    const left = missing.filter((variable) => !started?.has(variable));
    if (left.length > 0) await this.#runInitializers(left);
    this.#options.onValues?.();
    return undefined;
  }

  /**
   * Why a starting chief does not use the values that it finds: the step had fallen before its predecessor ended, or it is
   * lower than that of the newest checkpoint.
   */
  async #reasonToGoBack(): Promise<string | undefined> {
    const { runner, newestStep, hasFallen } = this.#options;
    if (await hasFallen?.()) return 'the global step had fallen before the former chief ended';
    const globalStep = globalStepOf(this.#options);
    if (!globalStep || !newestStep) return undefined;
    // In this order: a step that is read before a save may be lower.
    const newest = await newestStep();
    if (newest === undefined) return undefined;
    const now = (await runner.run(globalStep.toOutput(), this.#within(30_000))).number();
    return now < newest
      ? `the global step, ${now}, is lower than that of the newest checkpoint, ${newest}`
      : undefined;
  }

  /**
   * Whether a step of deterministic training was applied on some devices and not on others. Counters that are not set
   * belong to training that was not deterministic.
   */
  async #isTorn(): Promise<boolean> {
    const { graph, runner } = this.#options;
    const counters = graph.getCollection<Output<'int64'>>(GraphKeys.stepCounters);
    const globalStep = globalStepOf(this.#options);
    if (counters.length === 0 || !globalStep) return false;
    const known = graph.getCollection<Output<'bool'>>(GraphKeys.stepCountersSet);
    const areSet = (await runner.run(known, this.#within(30_000))).map((is) => is.item() as boolean);
    if (!areSet.includes(true)) return false;
    if (areSet.includes(false)) return true;
    const steps = await runner.run([globalStep.toOutput(), ...counters], this.#within(30_000));
    const [now, ...each] = steps.map((step) => step.number());
    return each.some((step) => step !== now);
  }

  /** Clears what lost steps left behind before any task can make new steps. */
  async #reset(): Promise<void> {
    const { graph, runner } = this.#options;
    const ops = graph.getCollection<Operation>(GraphKeys.resetOps);
    if (ops.length > 0) await runner.run(ops, this.#within(30_000));
  }

  #globalOf(variables: readonly Variable[]): Variable[] {
    return variables.filter((variable) => !this.#local.has(variable));
  }

  /** The global variables of replaced ps, for the chief; undefined if no ps was replaced, or they have been restored. */
  async #replaced(progress: Progress): Promise<readonly Variable[] | undefined> {
    const { replaced, signal, isChief } = this.#options;
    if (!isChief || progress.knowsReplaced) return undefined;
    const lost = await replaced?.among(this.#globalOf(this.#variables), signal);
    progress.knowsReplaced = true;
    if (!lost || lost.length === 0) return undefined;
    // The check after the restore is faster if a ps that has just started has answered it before.
    this.#missing().catch(() => {});
    return lost;
  }

  async #missing(): Promise<Variable[]> {
    const { runner } = this.#options;
    const names = await runner.run(this.#uninitialized, this.#within(30_000));
    const missing = new Set(names.toArray() as string[]);
    return this.#variables.filter(({ name }) => missing.has(name));
  }

  async #runInitializers(variables: readonly Variable[]): Promise<void> {
    await this.#options.runner.run(
      variables.map(({ initializer }) => initializer),
      this.#within(60_000),
    );
  }

  async #notReady(op: Output<'string'> | undefined): Promise<string | undefined> {
    if (!op) return undefined;
    const answer = await this.#options.runner.run(op, this.#within(30_000));
    const names = [answer.toArray()].flat() as string[];
    return names.length === 0 ? undefined : `waiting for ${names.join(', ')} to be ready`;
  }

  #within(timeoutMs: number): { timeoutMs: number; signal?: AbortSignal } {
    const { signal } = this.#options;
    return { timeoutMs, signal };
  }
}

function notComplete(limitMs: number, waitsFor: string | undefined, cause: unknown): ShoalError {
  const what = waitsFor ?? messageOf(cause);
  return new ShoalError('SHOAL_TIMEOUT', `The cluster was not complete within ${limitMs} ms: ${what}`, {
    cause,
    hint: 'Check that the chief and all ps run, and read their logs.',
  });
}

function tooManyAbandonedCalls(): ShoalError {
  return new ShoalError(
    'SHOAL_UNREACHABLE',
    `More than ${MAX_ABANDONED} calls into TensorFlow have not returned for ${ABANDONED_MS / 1000} s`,
    { hint: 'Restart the process, on this machine or another one (exit code 75).' },
  );
}

const namesOf = (variables: readonly Variable[]): string => {
  const names = variables.slice(0, 5).map(({ name }) => name);
  return variables.length > 5 ? `${names.join(', ')} and ${variables.length - 5} more` : names.join(', ');
};
