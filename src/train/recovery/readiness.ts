/**
 * How the variables of a cluster come to have values: the chief restores them or gives them their first ones, each
 * task cares for its own, and everybody else waits, saying for what, until a deadline.
 */
import { backoffMs } from '../../async/backoff.js';
import { sleep } from '../../async/deadline.js';
import { firstLineOf, isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { nativeLane } from '../../session/native-call-queue.js';
import { GraphKeys } from '../../variables/collections.js';
import { reportUninitializedVariables } from '../../variables/initialize.js';
import type { Variable } from '../../variables/variable.js';
import { globalVariables, localVariables } from '../../variables/variable-scope.js';
import type { Runner } from './recoverable-session.js';

export interface ReadinessOptions {
  readonly runner: Runner;
  readonly graph: Graph;
  readonly isChief: boolean;
  /** How long the cluster may take to become whole again. */
  readonly recoveryMs?: number;
  /** How long it may take at the start; as `recoveryMs` when left out. */
  readonly startMs?: number;
  /**
   * The chief calls this before it gives first values to global variables that have none. True: values are there
   * (of all variables, not of the missing alone), look again. False: there is nothing to restore.
   */
  readonly restore?: (missing: readonly Variable[], again: boolean) => Promise<boolean>;
  /** How the chief gives first values; by the initializers of the variables when left out. */
  readonly initialize?: (missing: readonly Variable[], again: boolean) => Promise<void>;
  /**
   * The chief calls this when there is nothing to restore; it gives values to some variables, and returns those. Their
   * initializers do not run. With `initialize` it is called after that, whose op may give values to all.
   */
  readonly warmStart?: (() => Promise<ReadonlySet<Variable>>) | undefined;
  /** What must be there before a task cares for its own: the op gives the names of what is missing. */
  readonly readyForLocalInitOp?: Output<'string'> | undefined;
  /** What a task does for its own, tables for example, before its variables that still lack a value get one. */
  readonly localInit?: ((again: boolean) => Promise<void>) | undefined;
  /** What must be there at last, told in the same way. */
  readonly readyOp?: Output<'string'> | undefined;
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
  /** How often to say for what this waits. */
  readonly progressMs?: number;
  /** Which errors a change of the cluster explains. */
  readonly isRecoverable: (error: unknown) => boolean;
  /** Whether no other task can come: what can't be reached now is not waited for. */
  readonly isAlone?: boolean;
}

const RETRY = { baseMs: 50, maxMs: 1000 };
/**
 * Calls that TensorFlow never returned from: past this many the process is better given up. An input alone may have more
 * under way; what was given up with a lost session returns when that is closed.
 */
const MAX_ABANDONED = 8;
const ABANDONED_MS = 60_000;
/** First values given this often and still missing: the ops that give them do not do so. */
const MAX_INITIALIZATIONS = 3;

/** What has been done on the way to readiness. */
interface Progress {
  readonly again: boolean;
  initializations: number;
  hasLocalInit: boolean;
}

export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #variables: readonly Variable[];
  /** Variables of this task alone, to which it gives values itself. */
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
    const progress: Progress = { again, initializations: 0, hasLocalInit: false };
    const begun = performance.now();
    let said = { what: '', at: 0 };
    let stuckSince: number | undefined;
    for (let attempt = 0; ; attempt++) {
      const isStuck = nativeLane().abandoned > MAX_ABANDONED;
      stuckSince = isStuck ? (stuckSince ?? performance.now()) : undefined;
      if (stuckSince !== undefined && performance.now() - stuckSince > ABANDONED_MS) throw stuck();
      let waitsFor: string | undefined;
      let cause: unknown;
      try {
        waitsFor = await this.#advance(progress);
        if (waitsFor === undefined) return;
      } catch (error) {
        if (signal?.aborted || !this.#mayPass(error)) throw error;
        cause = error;
      }
      const elapsed = performance.now() - begun;
      const what = waitsFor ?? `waiting for the cluster: ${firstLineOf(cause)}`;
      if (what !== said.what || elapsed - said.at > progressMs) {
        log?.(`${what} (${Math.round(elapsed / 1000)} of ${Math.round(limitMs / 1000)} s)`);
        said = { what, at: elapsed };
      }
      if (elapsed > limitMs) throw late(limitMs, waitsFor, cause);
      await sleep(backoffMs(attempt, RETRY), signal);
    }
  }

  /** A store that can't be reached at this moment may be the lost ps itself. */
  #mayPass(error: unknown): boolean {
    const { isRecoverable, isAlone } = this.#options;
    return isRecoverable(error) || (!isAlone && isShoalError(error, 'SHOAL_UNREACHABLE'));
  }

  /** Does what can be done at this moment; gives what is to be waited for, if anything. */
  async #advance(progress: Progress): Promise<string | undefined> {
    const { isChief, readyForLocalInitOp, localInit, readyOp } = this.#options;
    const global = (await this.#missing()).filter((variable) => !this.#local.has(variable));
    if (global.length > 0) {
      if (!isChief) return `waiting for the chief to give values to ${namesOf(global)}`;
      return (await this.#provide(global, progress)) ?? this.#advance(progress);
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

  /** The chief's part: values from a checkpoint, or first ones. Gives what went amiss, if anything. */
  async #provide(missing: readonly Variable[], progress: Progress): Promise<string | undefined> {
    const { restore, initialize, warmStart, log } = this.#options;
    const { again } = progress;
    await this.#reset();
    if (await restore?.(missing, again)) {
      const left = (await this.#missing()).filter((variable) => !this.#local.has(variable));
      // First values beside restored ones would be a state that never was: wait, and restore once more.
      return left.length > 0
        ? `restored, but ${namesOf(left)} have no value: restoring once more`
        : undefined;
    }
    if (progress.initializations++ === MAX_INITIALIZATIONS) {
      throw new ShoalError(
        'SHOAL_TF_FAILED_PRECONDITION',
        `The init op has run, and ${namesOf(missing)} still have no value`,
        { hint: 'Let the init op give a value to every global variable, or leave it out.' },
      );
    }
    if (again) log?.(`no value is left of ${namesOf(missing)}: starting again from first values`);
    if (initialize) {
      await initialize(missing, again);
      await warmStart?.();
      return undefined;
    }
    // Others begin to train when every variable has a value: those of a checkpoint come before the last of them.
    const started = await warmStart?.();
    const left = missing.filter((variable) => !started?.has(variable));
    if (left.length > 0) await this.#runInitializers(left);
    return undefined;
  }

  /** What is left of the steps that were lost goes before anybody can make new ones. */
  async #reset(): Promise<void> {
    const { graph, runner } = this.#options;
    const ops = graph.getCollection<Operation>(GraphKeys.resetOps);
    if (ops.length > 0) await runner.run(ops, this.#within(30_000));
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
    return { timeoutMs, ...(signal ? { signal } : {}) };
  }
}

function late(limitMs: number, waitsFor: string | undefined, cause: unknown): ShoalError {
  const what = waitsFor ?? messageOf(cause);
  return new ShoalError('SHOAL_TIMEOUT', `The cluster was not whole within ${limitMs} ms: ${what}`, {
    cause,
    hint: 'Look whether the chief and all ps run, and at what they say.',
  });
}

function stuck(): ShoalError {
  return new ShoalError(
    'SHOAL_UNREACHABLE',
    `More than ${MAX_ABANDONED} calls into TensorFlow have not returned for ${ABANDONED_MS / 1000} s`,
    { hint: 'The process is to be started again, here or elsewhere (exit code 75).' },
  );
}

const namesOf = (variables: readonly Variable[]): string => {
  const names = variables.slice(0, 5).map(({ name }) => name);
  return variables.length > 5 ? `${names.join(', ')} and ${variables.length - 5} more` : names.join(', ');
};
