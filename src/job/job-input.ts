/**
 * The input of a job while it trains: what feeds its datasets begins when all variables have values, and begins anew
 * after each recovery. Where it is leased, the chief's ledger goes with the model's values wherever they go.
 */
import type { Server } from '../cluster/runtime/server.js';
import { Feeders } from '../train/leases/feeders.js';
import { LeasedInput } from '../train/leases/leased-input.js';
import type { RecoverableOptions } from '../train/recovery/recoverable-session.js';
import type { RecoveryGuard } from '../train/recovery/recovery-guard.js';
import type { CheckpointedInput, TrainingRunner } from '../train/recovery/training-runner.js';
import type { Variable } from '../variables/variable.js';
import type { JobCheckpoints } from './checkpointing.js';
import { LeasedSteps } from './leased-steps.js';
import type { TrainingGraph } from './training-graph.js';

export interface JobInputOptions {
  readonly parts: TrainingGraph;
  readonly runner: TrainingRunner & { readonly server?: Server };
  /** Steps under way at once. */
  readonly lanes: number;
  readonly recoveryGuard: RecoveryGuard;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

type Values = Pick<RecoverableOptions, 'localInit' | 'restore' | 'initialize'>;

export class JobInput implements AsyncDisposable {
  readonly #options: JobInputOptions;
  readonly #input: LeasedInput | undefined;
  readonly #feeders: Feeders | undefined;
  readonly leased: LeasedSteps | undefined;
  #failure: { readonly error: unknown } | undefined;

  private constructor(options: JobInputOptions, input: LeasedInput | undefined) {
    const { parts, runner, log } = options;
    this.#options = options;
    this.#input = input;
    this.leased = input && new LeasedSteps(parts, input);
    const onError = (error: unknown) => {
      this.#failure ??= { error };
    };
    this.#feeders = Feeders.of(runner, { log, onError });
  }

  /** What a source of records failed with. */
  readonly failure = (): { readonly error: unknown } | undefined => this.#failure;

  static async open(options: JobInputOptions): Promise<JobInput> {
    const { parts, runner, log } = options;
    const { shards, inputLine } = parts;
    if (inputLine) log(`input: ${inputLine}`);
    const isChief = runner.server?.isChief ?? true;
    return new JobInput(options, shards && (await LeasedInput.open({ ...options, shards, isChief })));
  }

  /** The chief's ledger, for checkpoints. */
  get checkpointed(): CheckpointedInput | undefined {
    return this.#input?.checkpointed;
  }

  /** How variables get values: those of a checkpoint or first ones, and the ledger what belongs to them. */
  valuesBy(checkpoints: JobCheckpoints | undefined): Values {
    const { parts, runner } = this.#options;
    const { localInit } = parts;
    const local = localInit ? { localInit: async () => void (await runner.run(localInit)) } : {};
    const restore = checkpoints
      ? {
          restore: (missing: readonly Variable[], again: boolean) => checkpoints.restore(missing, again),
        }
      : {};
    return { ...local, ...(this.#input?.values(restore) ?? restore) };
  }

  /** All variables have values: records may come. */
  async ready(): Promise<void> {
    await this.#input?.ready();
    await this.#feeders?.begin();
  }

  /** Before a recovery: resolves when no step of leased input is under way, and nobody waits for records. */
  async rest(): Promise<void> {
    await this.#input?.quiet();
    await this.#feeders?.stop();
  }

  /** Training is over: nobody is to wait for more. */
  finish(): void {
    this.#input?.finish();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#input?.stop();
    await this.#feeders?.stop();
    await this.#input?.[Symbol.asyncDispose]();
  }
}
