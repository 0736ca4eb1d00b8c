/**
 * Leased input of a training session: a step begins when it has a batch, and reports what it consumed before it counts
 * as completed. The chief restores and resets the ledger together with the values of the model.
 */

import { setMaxListeners } from 'node:events';
import { withDeadline } from '../../../base/async/deadline.js';
import { hintLineOf, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import { parseTaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { ShardInput } from '../../input/leases/shards.js';
import { initializeInOrder } from '../recovery/initialize-in-order.js';
import type { RecoverableOptions } from '../recovery/recoverable-session.js';
import type { RecoveryGuard } from '../recovery/recovery-guard.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import type { CheckpointedInput, TrainingRunner } from '../task/training-runner.js';
import { connectInput, LedgerKeeper } from './ledger-keeper.js';
import { nextOf, type ShardParts } from './shard-parts.js';

export interface LeasedInputOptions {
  readonly shards: ShardParts;
  readonly runner: TrainingRunner;
  readonly isChief: boolean;
  /** The number of steps in flight. */
  readonly slots: number;
  readonly recoveryGuard: RecoveryGuard;
  /** Pauses steps for a snapshot. */
  readonly gate: StepGate | undefined;
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** What the run of a step reports. */
export interface LeasedRun {
  /** Call immediately before the run. */
  begin(): void;
  /** Call after the run, with the `position` that it fetched. */
  consumed(position: Tensor<'int64'>): Promise<void>;
}

/** A step that has a batch of leased input. */
export interface LeasedStep {
  make<R>(run: (step: LeasedRun) => Promise<R>): Promise<R>;
}

/** A run that has a batch of leased input. */
export interface AdmittedRun extends LeasedStep {
  readonly position: Output<'int64'>;
  readonly feeds: ReadonlyMap<Output, Tensor> | undefined;
}

/** The batch of a step was reassigned while the step waited to begin. Not a failure: the step is repeated. */
export class Overtaken extends Error {}

/** How variables are restored and initialized. */
export type Values = Pick<RecoverableOptions, 'restore' | 'initialize'>;

/** How long steps may take to end before the input restarts without them. */
const QUIET_MS = 30_000;
/** How long the outcome of the last steps may take to be known after a stop: on the chief, and on another worker. */
const STOP_MS = { chief: 30_000, worker: 5_000 } as const;

export class LeasedInput implements AsyncDisposable {
  readonly shards: ShardParts;
  readonly #options: LeasedInputOptions;
  readonly #keeper: LedgerKeeper | undefined;
  readonly #over: AbortController;
  readonly #unwatch: () => void;
  readonly #underWay = new Set<Promise<unknown>>();
  /** End the holds of steps whose outcome is not known, as no snapshot may be taken before. */
  readonly #unsettled = new Set<() => void>();
  /** The op that takes a batch from the iterator. */
  readonly #next: string;

  private constructor(options: LeasedInputOptions, keeper: LedgerKeeper | undefined, over: AbortController) {
    const { shards, runner, log } = options;
    const { server } = runner;
    this.shards = shards;
    this.#next = nextOf(shards.position.op).name;
    this.#options = options;
    this.#keeper = keeper;
    this.#over = over;
    const observer = server?.metrics.leases;
    if (server && keeper) server.metrics.ledger = () => keeper.state;
    const onBegun = () => this.#settleSteps();
    connectInput(shards.input, { server, keeper, observer, onBegun, signal: over.signal, log });
    this.#unwatch = watchPs(server, shards.input);
  }

  static async open(options: LeasedInputOptions): Promise<LeasedInput> {
    const { shards, runner, isChief, slots, log } = options;
    const { server } = runner;
    const over = new AbortController();
    if (!isChief) log('input: the chief leases the records to this task in ranges');
    // After a stop the last steps still report what they consumed: the last checkpoint needs it.
    const stopMs = isChief ? STOP_MS.chief : STOP_MS.worker;
    options.signal.addEventListener(
      'abort',
      () => void setTimeout(() => over.abort('training was stopped'), stopMs).unref(),
      { once: true },
    );
    // Every request adds a listener.
    setMaxListeners(0, over.signal);
    const keeper = isChief
      ? await LedgerKeeper.open({ shards, server, slots, stop: options.signal, signal: over.signal, log })
      : undefined;
    return new LeasedInput(options, keeper, over);
  }

  #settleSteps(): void {
    for (const release of this.#unsettled) release();
    this.#unsettled.clear();
  }

  /** The chief's ledger, for checkpoints. */
  get checkpointed(): CheckpointedInput | undefined {
    const keeper = this.#keeper;
    return (
      keeper && {
        settled: (signal) => keeper.leases.settled(signal),
        snapshot: () => keeper.leases.snapshot(),
        restored: (state) => keeper.restored(state),
      }
    );
  }

  /** Wraps `restore` and `initialize` so that they also restore or reset the ledger. */
  values({ restore, initialize }: Values): Values {
    const { runner, recoveryGuard, log } = this.#options;
    const keeper = this.#keeper;
    const restoring = restore ? { restore } : {};
    if (!keeper) return { ...restoring, ...(initialize ? { initialize } : {}) };
    const begin = async (missing: readonly Variable[], again: boolean) => {
      await (initialize ? initialize(missing, again) : initializeInOrder(runner, missing));
      keeper.reset();
    };
    keeper.rewinding = {
      withoutSaves: async (work) => {
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
      ...(restore
        ? { restore: (missing, again) => keeper.replaceValues(() => restore(missing, again)) }
        : {}),
      initialize: (missing, again) => keeper.replaceValues(() => begin(missing, again)),
    };
  }

  /** All variables have values: the chief may grant leases. */
  async ready(): Promise<void> {
    await this.#keeper?.ready();
  }

  /** Waits for the batch of a step; undefined at the end of the input. */
  async admit(signal: AbortSignal): Promise<LeasedStep | undefined> {
    const { input } = this.shards;
    const permit = await input.admit(signal);
    if (!permit) return undefined;
    return {
      make: async (run) => {
        let end = () => {};
        let release = () => {};
        const begin = () => {
          if (!permit.isValid) throw new Overtaken();
          release = this.#options.gate?.hold() ?? release;
          this.#unsettled.add(release);
          const running = new Promise<void>((resolve) => {
            end = resolve;
          });
          this.#underWay.add(running);
          void running.then(() => this.#underWay.delete(running));
        };
        try {
          const consumed = async (position: Tensor<'int64'>) => {
            await input.completed(position);
            release();
            this.#unsettled.delete(release);
          };
          return await run({ begin, consumed });
        } catch (error) {
          throw this.#isEnd(error) ? endedEarly(error) : error;
        } finally {
          end();
        }
      },
    };
  }

  /** Whether the iterator of this input, not of another one, reports its end although the step has a batch. */
  #isEnd(error: unknown): boolean {
    if (!isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return false;
    return (/\{\{node ([^}]+)\}\}/.exec(error.message)?.[1] ?? this.#next) === this.#next;
  }

  /** Resolves when no step is running, so the input can restart. */
  async quiet(): Promise<void> {
    const ended = Promise.all(this.#underWay);
    await withDeadline(ended, 'Waiting for running steps', { timeoutMs: QUIET_MS }).catch((error: unknown) =>
      this.#options.log(`${messageOf(error)}; the input restarts without them${hintLineOf(error)}`),
    );
  }

  /** Training is over: ends all waits for leases. */
  finish(): void {
    this.#keeper?.finish();
    this.settle();
  }

  /** No more steps of this task: the chief determines the outcome of those that were aborted, and a save may follow. */
  settle(): void {
    // The input does not begin again, which would settle them.
    if (!this.#keeper || this.#unsettled.size === 0) return;
    this.#keeper.settleOwnSteps();
    this.#settleSteps();
  }

  /** Stops all requests and answers. */
  stop(): void {
    this.#unwatch();
    this.#over.abort('training is over');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.#keeper?.[Symbol.asyncDispose]();
  }
}

/** A step that waits for a batch does not detect the loss of a ps, so the loss fails the wait. */
function watchPs(server: ClusterServer | undefined, input: ShardInput): () => void {
  if (!server) return () => {};
  return server.task.events.on('*', (event) => {
    if (!('member' in event) || parseTaskId(event.member.task).job !== 'ps') return;
    const isGone =
      event.type === 'lost' || event.type === 'left' || (event.type === 'back' && event.replaced);
    if (isGone) input.fail(new ShoalError('SHOAL_TF_UNAVAILABLE', `${event.member.task} was lost`));
  });
}

/**
 * The end-of-records signal of an earlier pass may arrive late, after a recovery, and end steps of the new pass. The
 * ledger shows that records are left, so the input restarts.
 */
const endedEarly = (cause: unknown): ShoalError =>
  new ShoalError('SHOAL_TF_ABORTED', 'The records ended before the leases did; restarting the input', {
    cause,
  });
