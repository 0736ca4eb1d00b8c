/**
 * Runs that survive the loss of a ps. A run that fails because the cluster changed is run again when the
 * cluster is whole and every variable has a value. The chief gives values to variables that have none, each task
 * to those that are its own; the others wait. A step that was half applied when a ps died stays half applied on the survivors.
 */
import { backoffMs } from '../async/backoff.js';
import { sleep } from '../async/deadline.js';
import { isShoalError, messageOf, ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { Fetch, Fetches, FetchResult } from '../session/fetches.js';
import { nativeLane } from '../session/lane.js';
import type { RunOptions } from '../session/session.js';
import { reportUninitializedVariables } from '../variables/initialize.js';
import type { Variable } from '../variables/variable.js';
import { globalVariables, localVariables } from '../variables/variable-scope.js';

/** What this needs of a session: one over a cluster, or a plain one. */
export interface Runner {
  run<const F extends Fetches>(fetches: F, options?: RunOptions): Promise<FetchResult<F>>;
}

export interface RecoverableOptions {
  readonly runner: Runner;
  readonly graph: Graph;
  readonly isChief: boolean;
  /** How long the cluster may take to become whole again. */
  readonly recoveryMs?: number;
  /** A run that takes longer is given up, and the cluster looked at. */
  readonly stepMs?: number;
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
}

const RETRY = { baseMs: 50, maxMs: 1000 };
/** Calls that TensorFlow never returned from: past this many the process is better given up. */
const MAX_ABANDONED = 8;

export class RecoverableSession {
  readonly #options: RecoverableOptions;
  readonly #variables: readonly Variable[];
  /** Variables of this task alone, to which it gives values itself. */
  readonly #local: ReadonlySet<Variable>;
  readonly #uninitialized: Output<'string'>;
  #wasReady = false;
  #recovering: Promise<void> | undefined;
  #recoveries = 0;

  constructor(options: RecoverableOptions) {
    this.#options = options;
    const { graph } = options;
    this.#local = new Set(localVariables(graph));
    this.#variables = [...globalVariables(graph), ...this.#local];
    this.#uninitialized = graph.asDefault(() => reportUninitializedVariables(this.#variables));
  }

  /** How often the cluster was lost and found again. */
  get recoveries(): number {
    return this.#recoveries;
  }

  /** Resolves when every variable has a value. */
  async ready(): Promise<void> {
    if (this.#wasReady) return;
    await this.#recover();
  }

  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    return this.#run(fetches as Fetch, options) as Promise<FetchResult<F>>;
  }

  async #run(fetches: Fetch, options: RunOptions): Promise<unknown> {
    const { runner, stepMs = 60_000, signal } = this.#options;
    await this.ready();
    for (;;) {
      const recovering = this.#recovering;
      if (recovering) await recovering;
      try {
        return await runner.run(fetches, { timeoutMs: stepMs, ...(signal ? { signal } : {}), ...options });
      } catch (error) {
        if (signal?.aborted || options.signal?.aborted || !isRecoverable(error)) throw error;
        this.#options.log?.(`a step failed: ${firstLine(error)}; waiting for the cluster`);
        await this.#recover();
      }
    }
  }

  /** One recovery at a time, however many runs failed. */
  #recover(): Promise<void> {
    this.#recovering ??= this.#makeReady().finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  async #makeReady(): Promise<void> {
    const { runner, isChief, recoveryMs = 300_000, signal, log } = this.#options;
    const deadline = performance.now() + recoveryMs;
    const again = this.#wasReady;
    let waitingFor = '';
    for (let attempt = 0; ; attempt++) {
      if (nativeLane().abandoned > MAX_ABANDONED) throw stuck();
      try {
        const missing = await this.#missing(runner);
        if (missing.length === 0) break;
        const mine = isChief ? missing : missing.filter((variable) => this.#local.has(variable));
        if (mine.length > 0) {
          if (again) log?.(`no value is left of ${namesOf(mine)}: starting again from first values`);
          await runner.run(
            mine.map(({ initializer }): Operation => initializer),
            { timeoutMs: 60_000, ...(signal ? { signal } : {}) },
          );
          continue;
        }
        const names = namesOf(missing);
        if (names !== waitingFor) log?.(`waiting for the chief to give values to ${names}`);
        waitingFor = names;
      } catch (error) {
        if (signal?.aborted || !isRecoverable(error)) throw error;
        if (performance.now() > deadline) {
          throw new ShoalError(
            'SHOAL_TIMEOUT',
            `The cluster was not whole within ${recoveryMs} ms: ${messageOf(error)}`,
            {
              cause: error,
            },
          );
        }
      }
      if (performance.now() > deadline) {
        throw new ShoalError(
          'SHOAL_TIMEOUT',
          `The chief gave no value to ${waitingFor} within ${recoveryMs} ms`,
        );
      }
      await sleep(backoffMs(attempt, RETRY), signal);
    }
    if (again) {
      this.#recoveries += 1;
      log?.('the cluster is whole again; training goes on');
    }
    this.#wasReady = true;
  }

  async #missing(runner: Runner): Promise<Variable[]> {
    const { signal } = this.#options;
    const names = await runner.run(this.#uninitialized, { timeoutMs: 30_000, ...(signal ? { signal } : {}) });
    const missing = new Set(names.toArray() as string[]);
    return this.#variables.filter(({ name }) => missing.has(name));
  }
}

function stuck(): ShoalError {
  return new ShoalError(
    'SHOAL_UNREACHABLE',
    `More than ${MAX_ABANDONED} calls into TensorFlow never returned`,
    {
      hint: 'The process is to be started again, here or elsewhere (exit code 75).',
    },
  );
}

/** Errors that a change of the cluster explains. */
export function isRecoverable(error: unknown): boolean {
  if (isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION'))
    return /Could not find variable|uninitialized/i.test(error.message);
  return (
    isShoalError(error, 'SHOAL_TF_UNAVAILABLE') ||
    isShoalError(error, 'SHOAL_TF_ABORTED') ||
    isShoalError(error, 'SHOAL_TF_CANCELLED') ||
    isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED') ||
    isShoalError(error, 'SHOAL_DISPOSED')
  );
}

const namesOf = (variables: readonly Variable[]): string => variables.map(({ name }) => name).join(', ');

const firstLine = (error: unknown): string => messageOf(error).split('\n')[0] as string;
