/**
 * The input of a job while it trains: what feeds its datasets begins when all variables have values, and begins anew
 * after each recovery. Where it is leased, the chief's ledger goes with the model's values wherever they go.
 */
import { setMaxListeners } from 'node:events';
import type { Server } from '../cluster/server.js';
import { parseTaskId } from '../cluster/task-id.js';
import { ShoalError } from '../errors/errors.js';
import { INPUT_FEEDERS } from '../input/generator.js';
import type { ShardInput } from '../input/shards.js';
import type { RecoverableOptions } from '../train/recoverable-session.js';
import type { TrainingRunner } from '../train/saver-like.js';
import type { Steadiness } from '../train/steadiness.js';
import type { Variable } from '../variables/variable.js';
import { globalVariables } from '../variables/variable-scope.js';
import type { CheckpointedInput, JobCheckpoints } from './checkpointing.js';
import { Feeders } from './feeders.js';
import { LeasedSteps } from './leased-steps.js';
import { connectInput, LedgerKeeper } from './ledger-keeper.js';
import type { TrainingGraph } from './training-graph.js';

export interface JobInputOptions {
  readonly parts: TrainingGraph;
  readonly runner: TrainingRunner & { readonly server?: Server };
  /** Steps under way at once. */
  readonly lanes: number;
  readonly steadiness: Steadiness;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

type Values = Pick<RecoverableOptions, 'localInit' | 'restore' | 'initialize'>;

export class JobInput implements AsyncDisposable {
  readonly #options: JobInputOptions;
  readonly #keeper: LedgerKeeper | undefined;
  readonly #feeders: Feeders | undefined;
  readonly leased: LeasedSteps | undefined;
  readonly #over: AbortController;
  readonly #unwatch: () => void = () => {};

  private constructor(
    options: JobInputOptions,
    keeper: LedgerKeeper | undefined,
    over: AbortController,
    signal: AbortSignal,
  ) {
    const { parts, runner, log } = options;
    const { shards, graph } = parts;
    this.#options = options;
    this.#keeper = keeper;
    this.#over = over;
    if (shards) {
      connectInput(shards.input, { server: runner.server, keeper, signal, log });
      this.leased = new LeasedSteps(parts, shards, log);
      this.#unwatch = watchPs(runner.server, shards.input);
    }
    if (graph.getCollection(INPUT_FEEDERS).length > 0) this.#feeders = new Feeders(runner, log);
  }

  static async open(options: JobInputOptions): Promise<JobInput> {
    const { parts, runner, lanes, log } = options;
    const { server } = runner;
    const { shards } = parts;
    const over = new AbortController();
    const signal = AbortSignal.any([options.signal, over.signal]);
    // Every question of a worker listens to it.
    setMaxListeners(0, signal);
    const isChief = server?.isChief ?? true;
    if (parts.inputLine) log(`input: ${parts.inputLine}`);
    else if (shards && !isChief) log('input: records are leased by the chief, piece by piece');
    const keeper =
      shards && isChief ? await LedgerKeeper.open({ shards, server, lanes, signal, log }) : undefined;
    return new JobInput(options, keeper, over, signal);
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

  /** How variables get values: those of a checkpoint or first ones, and the ledger what belongs to them. */
  valuesBy(checkpoints: JobCheckpoints | undefined): Values {
    const { parts, runner, steadiness, log } = this.#options;
    const { localInit } = parts;
    const keeper = this.#keeper;
    const local = localInit ? { localInit: async () => void (await runner.run(localInit)) } : {};
    const restore = checkpoints
      ? (missing: readonly Variable[], again: boolean) => checkpoints.restore(missing, again)
      : undefined;
    if (!keeper) return { ...local, ...(restore ? { restore } : {}) };
    const initialize = async (missing: readonly Variable[]) => {
      const others = globalVariables(parts.graph).filter((variable) => !missing.includes(variable));
      // Who sees values everywhere may train: what was lost comes last.
      for (const variables of [others, missing]) {
        if (variables.length > 0) await runner.run(variables.map(({ initializer }) => initializer));
      }
      keeper.reset();
    };
    keeper.rewinding = {
      apart: async (work) => {
        await steadiness.lose(log);
        try {
          await work();
        } finally {
          steadiness.find();
        }
      },
      ...(restore ? { restore: () => restore([], true) } : {}),
      initialize: () => initialize([]),
    };
    return {
      ...local,
      ...(restore ? { restore: (missing, again) => keeper.place(() => restore(missing, again)) } : {}),
      initialize: (missing) => keeper.place(() => initialize(missing)),
    };
  }

  /** All variables have values: records may come. */
  async ready(): Promise<void> {
    await this.#keeper?.ready();
    await this.#feeders?.begin();
  }

  /** Before a recovery: resolves when no step of leased input is under way, and nobody waits for records. */
  async rest(): Promise<void> {
    await this.leased?.quiet();
    await this.#feeders?.stop();
  }

  /** Training is over: nobody is to wait for more. */
  finish(): void {
    this.#keeper?.finish();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    this.#over.abort('training is over');
    await this.#feeders?.stop();
    await this.#keeper?.[Symbol.asyncDispose]();
  }
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
