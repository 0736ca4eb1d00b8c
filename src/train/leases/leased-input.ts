/**
 * Leased input of a session that trains: who makes a step has a batch for it first, and reports what the step consumed
 * before it counts as over. On the chief the ledger goes with the model's values wherever they go.
 */

import { setMaxListeners } from 'node:events';
import { withDeadline } from '../../async/deadline.js';
import type { Server } from '../../cluster/runtime/server.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';
import { isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import type { Output } from '../../graph/operation.js';
import type { ShardInput } from '../../input/leases/shards.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { Variable } from '../../variables/variable.js';
import { globalVariables } from '../../variables/variable-scope.js';
import type { RecoverableOptions } from '../recovery/recoverable-session.js';
import type { RecoveryGuard } from '../recovery/recovery-guard.js';
import type { CheckpointedInput, TrainingRunner } from '../recovery/training-runner.js';
import { connectInput, LedgerKeeper } from './ledger-keeper.js';
import { nextOf, type ShardParts } from './shard-parts.js';

export interface LeasedInputOptions {
  readonly shards: ShardParts;
  readonly runner: TrainingRunner;
  readonly isChief: boolean;
  /** Steps under way at once. */
  readonly lanes: number;
  readonly recoveryGuard: RecoveryGuard;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** What is told of a step while it is made. */
export interface LeasedRun {
  /** Nothing stands between the step and its run. */
  begin(): void;
  /** The run is made; `position` as it fetched it. */
  consumed(position: Tensor<'int64'>): Promise<void>;
}

/** One step of leased input, that has its batch. */
export interface LeasedStep {
  make<R>(run: (told: LeasedRun) => Promise<R>): Promise<R>;
}

/** A run that has a batch of leased input. */
export interface AdmittedRun extends LeasedStep {
  readonly position: Output<'int64'>;
}

/** The batch of a step went to another while the step waited to begin: it is to be made anew. No fault of anybody's. */
export class Overtaken extends Error {}

/** How variables get values. */
export type Values = Pick<RecoverableOptions, 'restore' | 'initialize'>;

/** How long steps may take to end before the input begins anew without them. */
const QUIET_MS = 30_000;

export class LeasedInput implements AsyncDisposable {
  readonly shards: ShardParts;
  readonly #options: LeasedInputOptions;
  readonly #keeper: LedgerKeeper | undefined;
  readonly #over: AbortController;
  readonly #unwatch: () => void;
  readonly #underWay = new Set<Promise<unknown>>();
  /** The op that takes a batch. */
  readonly #next: string;

  private constructor(
    options: LeasedInputOptions,
    keeper: LedgerKeeper | undefined,
    over: AbortController,
    signal: AbortSignal,
  ) {
    const { shards, runner, log } = options;
    const { server } = runner;
    this.shards = shards;
    this.#next = nextOf(shards.position.op).name;
    this.#options = options;
    this.#keeper = keeper;
    this.#over = over;
    connectInput(shards.input, { server, keeper, signal, log });
    this.#unwatch = watchPs(server, shards.input);
  }

  static async open(options: LeasedInputOptions): Promise<LeasedInput> {
    const { shards, runner, isChief, lanes, log } = options;
    const { server } = runner;
    const over = new AbortController();
    const signal = AbortSignal.any([options.signal, over.signal]);
    // Every question of a worker listens to it.
    setMaxListeners(0, signal);
    if (!isChief) log('input: records are leased by the chief, piece by piece');
    const keeper = isChief ? await LedgerKeeper.open({ shards, server, lanes, signal, log }) : undefined;
    return new LeasedInput(options, keeper, over, signal);
  }

  /** The chief's ledger, for checkpoints. */
  get checkpointed(): CheckpointedInput | undefined {
    const keeper = this.#keeper;
    return (
      keeper && {
        settled: (signal) => keeper.desk.settled(signal),
        cut: () => keeper.desk.cut(),
        restored: (state) => keeper.restored(state),
      }
    );
  }

  /** Gives variables their values in a way that the ledger gets what belongs to them. */
  values({ restore, initialize }: Values): Values {
    const { runner, recoveryGuard, log } = this.#options;
    const keeper = this.#keeper;
    const restoring = restore ? { restore } : {};
    if (!keeper) return { ...restoring, ...(initialize ? { initialize } : {}) };
    const begin = async (missing: readonly Variable[], again: boolean) => {
      await (initialize ?? firstValues(runner))(missing, again);
      keeper.reset();
    };
    keeper.rewinding = {
      apart: async (work) => {
        await recoveryGuard.suspend(log);
        try {
          await work();
        } finally {
          recoveryGuard.resume();
        }
      },
      ...(restore ? { restore: () => restore([], true) } : {}),
      initialize: () => begin([], true),
    };
    return {
      ...(restore ? { restore: (missing, again) => keeper.place(() => restore(missing, again)) } : {}),
      initialize: (missing, again) => keeper.place(() => begin(missing, again)),
    };
  }

  /** All variables have values: leases may be given. */
  async ready(): Promise<void> {
    await this.#keeper?.ready();
  }

  /** Waits for the batch of a step; undefined when the input is at its end. */
  async admit(signal: AbortSignal): Promise<LeasedStep | undefined> {
    const { input } = this.shards;
    const permit = await input.admit(signal);
    if (!permit) return undefined;
    return {
      make: async (run) => {
        let end = () => {};
        const begin = () => {
          if (!permit.isValid) throw new Overtaken();
          const running = new Promise<void>((resolve) => {
            end = resolve;
          });
          this.#underWay.add(running);
          void running.then(() => this.#underWay.delete(running));
        };
        try {
          return await run({ begin, consumed: (position) => input.completed(position) });
        } catch (error) {
          throw this.#isEnd(error) ? endedEarly(error) : error;
        } finally {
          end();
        }
      },
    };
  }

  /** Whether the records are said to be at their end, which a step that has a batch can't meet; not those of another input. */
  #isEnd(error: unknown): boolean {
    if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return false;
    return (/\{\{node ([^}]+)\}\}/.exec(error.message)?.[1] ?? this.#next) === this.#next;
  }

  /** Resolves when no step is under way: the input can begin anew. */
  async quiet(): Promise<void> {
    const ended = Promise.all(this.#underWay);
    await withDeadline(ended, 'Steps under way', { timeoutMs: QUIET_MS }).catch((error: unknown) =>
      this.#options.log(`${messageOf(error)}; the input begins anew without them`),
    );
  }

  /** Training is over: nobody is to wait for more. */
  finish(): void {
    this.#keeper?.finish();
  }

  /** Asks and answers nothing any more. */
  stop(): void {
    this.#unwatch();
    this.#over.abort('training is over');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.#keeper?.[Symbol.asyncDispose]();
  }
}

/** Who sees values everywhere may train: what was lost comes last. */
function firstValues(runner: TrainingRunner) {
  return async (missing: readonly Variable[]): Promise<void> => {
    const others = globalVariables(runner.graph).filter((variable) => !missing.includes(variable));
    for (const variables of [others, missing]) {
      if (variables.length > 0) await runner.run(variables.map(({ initializer }) => initializer));
    }
  };
}

/** A step that waits for a batch notices nothing of a ps that is lost, and who leads must. */
function watchPs(server: Server | undefined, input: ShardInput): () => void {
  if (!server) return () => {};
  return server.task.events.on('*', (event) => {
    if (!('member' in event) || parseTaskId(event.member.task).job !== 'ps') return;
    const isGone = event.type === 'lost' || (event.type === 'back' && event.replaced);
    if (isGone) input.fail(new ShoalError('SHOAL_TF_UNAVAILABLE', `${event.member.task} was lost`));
  });
}

/**
 * What ends those who wait for records before a recovery may come in after it, late, and end those of afterwards. The ledger
 * knows better: they begin anew.
 */
const endedEarly = (cause: unknown): ShoalError =>
  new ShoalError('SHOAL_TF_ABORTED', 'The records ended before the leases did: the input is to begin anew', {
    cause,
  });
