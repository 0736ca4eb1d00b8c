/**
 * Synchronous training. Each worker adds its gradients to accumulators on the variables' devices and waits for a
 * token. The chief applies the mean of `replicasToAggregate` gradients with the wrapped optimizer, increments the
 * step, and gives each worker a token. The accumulators drop gradients of past steps. Replicas beyond
 * `replicasToAggregate` are backups: a step does not wait for the slowest.
 *
 * Training progresses as long as workers that hold or will take a token, and gradients added with one, together reach
 * `replicasToAggregate`. While a worker is absent, the chief gives its tokens to the others (`tokenCounts`,
 * `handOutOp`). A surplus token only means that a worker adds two gradients to a step. A successor chief cannot know
 * who holds tokens: it drops the gradients and fills the queues up for a complete step (`restartOp`).
 */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { formatDevice, parseDevice } from '../../graph/device.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { fill, group, noOp } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import { GraphKeys } from '../../variables/collections.js';
import { Variable } from '../../variables/variable.js';
import type {
  ApplyGradientsOptions,
  ComputeGradientsOptions,
  GradientAndVariable,
  Optimizer,
} from '../optimizer.js';
import { noStep, orderedShare, StepCounters } from './ordered-shares.js';
import { type SyncMark, SyncMarks } from './sync-marks.js';
import { firstStep, type Share, share } from './sync-shares.js';
import { SyncTokens, tokenCounts } from './sync-tokens.js';

export interface SyncReplicasOptions {
  /** The number of gradients per step. */
  readonly replicasToAggregate: number;
  /** The number of workers; those beyond `replicasToAggregate` are backups. Default: `replicasToAggregate`. */
  readonly totalNumReplicas?: number;
  /** The device of this worker, such as `/job:worker/task:1`. Default: from the device scope. */
  readonly workerDevice?: string;
  /** The index of this worker, if its device does not show it. Default: the task of its device. */
  readonly workerIndex?: number;
  /**
   * Whether the same steps always give the same bits: each step has exactly one gradient of each worker, and adds them in
   * the order of the workers. Steps wait for a worker that is absent, and training ends with the first input that ends.
   * A chief that died between the updates of two ps goes back to the last checkpoint. Default: false.
   */
  readonly deterministic?: boolean;
}

/** A variable on the queue's device, not checkpointed: initialized once steps may have run. */
const STARTED = 'sync_replicas/started';

interface ChiefState {
  readonly localStep: Variable;
  readonly counters: StepCounters | undefined;
  readonly marks: SyncMarks;
  readonly rateFactor: Output | undefined;
}

interface ChiefOps {
  readonly sync: Operation;
  readonly tokens: SyncTokens;
  readonly left: Output<'int32'>;
  readonly topUp: Operation;
  readonly handOut: Operation;
  readonly initTokens: Operation;
  readonly release: Operation;
  readonly close: Operation;
  readonly wasClosed: Output<'bool'>;
  readonly wasStarted: Output<'bool'>;
  readonly markStarted: Operation;
  readonly restart: Operation;
  readonly reset: Operation;
  readonly setLocalStep: Operation;
  readonly attempt: Output<'int64'>;
  readonly progress: SyncProgress;
}

/** Shows how far a step is. A mark is to be read only if it is set. */
export interface SyncProgress {
  readonly step: Output<'int64'>;
  /** The tokens that each worker has not taken. */
  readonly tokens: Output<'int32'>;
  /** The marks of each worker (see `areWaiting`). */
  readonly workers: readonly (readonly SyncMark[])[];
  readonly devices: readonly {
    readonly device: string;
    /** The attempt that took gradients last. */
    readonly taken: SyncMark;
    /** The number of gradients that a variable of the device has. */
    readonly gradients: Output<'int32'>;
  }[];
}

export class SyncReplicasOptimizer {
  readonly #inner: Optimizer;
  readonly #required: number;
  readonly #replicas: number;
  readonly #workerDevice: string | undefined;
  readonly #workerIndex: number | undefined;
  /** Whether each step has exactly one gradient of each worker, in the order of the workers. */
  readonly isDeterministic: boolean;
  #ops: ChiefOps | undefined;

  constructor(inner: Optimizer, given: OrNull<SyncReplicasOptions>) {
    const options = withoutNull<SyncReplicasOptions>(given);
    const { replicasToAggregate, totalNumReplicas = replicasToAggregate } = options;
    for (const [name, value] of Object.entries({ replicasToAggregate, totalNumReplicas })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw invalid(`${name} must be a positive integer; got ${value}`);
    }
    this.#inner = inner;
    this.#required = replicasToAggregate;
    this.#replicas = totalNumReplicas;
    this.#workerDevice = options.workerDevice;
    this.#workerIndex = options.workerIndex;
    this.isDeterministic = options.deterministic ?? false;
    if (this.isDeterministic && replicasToAggregate !== totalNumReplicas)
      throw invalid(
        `Deterministic training needs one gradient of each of the ${totalNumReplicas} workers; replicasToAggregate is ${replicasToAggregate}`,
      );
  }

  get #made(): ChiefOps {
    if (!this.#ops) throw invalid('SyncReplicasOptimizer: call minimize or applyGradients first');
    return this.#ops;
  }

  /** The tasks of the workers, in the order of `tokenCounts`. */
  get workers(): readonly string[] {
    return this.#made.tokens.workers;
  }

  /**
   * The number of tokens that `syncOp`, `handOutOp`, `initTokensOp` and `restartOp` give to each worker; fed while a worker is absent.
   * Default: those of a complete cluster.
   */
  get tokenCounts(): Output<'int32'> {
    return this.#made.tokens.counts;
  }

  /** The tokens of each worker for one step, to be fed as `tokenCounts`. */
  tokensFor(isPresent: readonly boolean[]): Int32Array {
    return tokenCounts(this.#required, isPresent);
  }

  /** The chief runs this in a loop: each run waits for enough gradients and applies one step. */
  get syncOp(): Operation {
    return this.#made.sync;
  }

  /** The tokens that each worker had not taken when the last run of `syncOp` was about to give new ones. */
  get tokensLeft(): Output<'int32'> {
    return this.#made.left;
  }

  /** The number of the attempt, to be fed with `syncOp`: one that no chief has used. Default: 0. @internal */
  get attempt(): Output<'int64'> {
    return this.#made.attempt;
  }

  /** How far the current step is, for a chief that asks why it takes long. @internal */
  get progress(): SyncProgress {
    return this.#made.progress;
  }

  /** The number of gradients that a step needs. @internal */
  get required(): number {
    return this.#required;
  }

  /** The chief runs this when a step takes long: workers that have no token get one. */
  get topUpOp(): Operation {
    return this.#made.topUp;
  }

  /** The chief runs this when a worker is lost, with the tokens that others get in its place. */
  get handOutOp(): Operation {
    return this.#made.handOut;
  }

  /** The chief runs this before the very first step. */
  get initTokensOp(): Operation {
    return this.#made.initTokens;
  }

  /** Gives each worker a token that is not for a step: it releases all workers that wait for one. */
  get releaseOp(): Operation {
    return this.#made.release;
  }

  /** The chief runs this after the last step: workers without a token get OUT_OF_RANGE instead of waiting for one. */
  get closeOp(): Operation {
    return this.#made.close;
  }

  /** Whether `closeOp` has run since the global step's ps started. */
  get wasClosed(): Output<'bool'> {
    return this.#made.wasClosed;
  }

  /** Whether this chief or a predecessor ran `markStartedOp` since the global step's ps started. */
  get wasStarted(): Output<'bool'> {
    return this.#made.wasStarted;
  }

  get markStartedOp(): Operation {
    return this.#made.markStarted;
  }

  /**
   * A successor chief runs this before its first step, and any chief after a recovery. Otherwise accumulators that saw
   * a later step would drop all gradients as stale, and workers might wait for tokens that never come.
   */
  get restartOp(): Operation {
    return this.#made.restart;
  }

  /**
   * The chief runs this when variables were lost, before they are restored and before workers add gradients:
   * accumulators hold gradients of lost steps. It is in the graph's collection of reset ops.
   */
  get resetOp(): Operation {
    return this.#made.reset;
  }

  /** Workers run this before their first step and after variables were lost; sets the local step to the global one. */
  get localStepInitOp(): Operation {
    return this.#made.setLocalStep;
  }

  computeGradients(loss: Output, options?: OrNull<ComputeGradientsOptions>): GradientAndVariable[] {
    return this.#inner.computeGradients(loss, options);
  }

  minimize(loss: Output, given: OrNull<ComputeGradientsOptions & ApplyGradientsOptions> = {}): Operation {
    const options = withoutNull<ComputeGradientsOptions & ApplyGradientsOptions>(given);
    return this.applyGradients(this.computeGradients(loss, options), options);
  }

  /** The op of a worker's step: adds its gradients, then waits for a token. */
  applyGradients(
    pairs: readonly GradientAndVariable[],
    given: OrNull<ApplyGradientsOptions> = {},
  ): Operation {
    const options = withoutNull<ApplyGradientsOptions>(given);
    const { globalStep, rateFactor, name = 'sync_replicas' } = options;
    if (!globalStep) throw invalid('SyncReplicasOptimizer needs a globalStep');
    const graph = currentGraph();
    return graph.nameScope(name, () => {
      // The device of an op that belongs to no other shows where this worker's ops are.
      const device = this.#workerDevice ?? noOp({ name: 'worker' }).device;
      const localStep = this.#localStep(name, device);
      const tokens = new SyncTokens(globalStep, {
        own: this.#taskOn(device),
        replicas: this.#replicas,
        required: this.#required,
      });
      const given = pairs.filter(
        (pair): pair is [NonNullable<(typeof pair)[0]>, Variable] => pair[0] !== null,
      );
      const counters = this.isDeterministic
        ? new StepCounters(
            graph,
            given.map(([, variable]) => variable),
          )
        : undefined;
      const { workers } = tokens;
      const own = this.#taskOn(device);
      const shares = given.map(([gradient, variable]) =>
        graph.colocateWith(variable.handle, () =>
          counters
            ? orderedShare(gradient, variable, { localStep, counters, workers, own })
            : share(gradient, variable, localStep),
        ),
      );
      const marks = new SyncMarks({
        globalStep,
        variables: given.map(([, variable]) => variable),
        workers,
        own,
      });
      const begins = () => marks.begins();
      const trainOp = graph.controlDependencies(
        [...shares.map(({ give }) => give), ...marks.given(shares, given, localStep)],
        () => localStep.assign(tokens.take(begins), { name: 'local_step_update' }),
      );
      const parts = { localStep, counters, marks, rateFactor };
      this.#ops = this.#chiefOps(shares, tokens, globalStep as Variable<'int64'>, parts);
      graph.addToCollection(GraphKeys.resetOps, this.#ops.reset);
      return trainOp;
    });
  }

  #taskOn(device: string): string {
    const { job = 'worker', ...parsed } = parseDevice(device);
    const task = this.#workerIndex?.toString() ?? parsed.task;
    if (task !== undefined) return formatDevice({ job, task });
    if (this.#replicas === 1) return formatDevice({ job, task: '0' });
    throw invalid('SyncReplicasOptimizer does not know which worker this is', {
      hint: "pass workerDevice, such as '/job:worker/task:1', or workerIndex, or use tf.device",
    });
  }

  #localStep(name: string, device: string): Variable<'int64'> {
    return Variable.create<'int64'>({
      name: `${name}_local_step`,
      initialValue: () => fill([], Tensor.of(0n)),
      trainable: false,
      collections: [GraphKeys.localVariables],
      device,
    });
  }

  #chiefOps(
    shares: readonly Share[],
    tokens: SyncTokens,
    globalStep: Variable<'int64'>,
    { localStep, counters, marks, rateFactor }: ChiefState,
  ): ChiefOps {
    const { graph } = globalStep;
    const required = Tensor.of(this.#required, { dtype: 'int32' });
    const taken = shares.map(
      ({ variable, take }): GradientAndVariable => [
        graph.colocateWith(variable.handle, () => take(required)),
        variable,
      ],
    );
    const averaged = counters ? counters.counted(taken) : taken;
    const update = this.#inner.applyGradients(averaged, { globalStep, ...(rateFactor && { rateFactor }) });
    const [left, sync] = graph.controlDependencies([update], () => {
      const step = graph.colocateWith(globalStep.handle, () => globalStep.read());
      const moved = shares.map(({ variable, advance }) =>
        graph.colocateWith(variable.handle, () => advance(step)),
      );
      return graph.controlDependencies(moved, () => {
        const left = tokens.left();
        return [left, graph.controlDependencies([left.op], () => tokens.topUp())] as const;
      });
    });
    const step = graph.colocateWith(globalStep.handle, () => globalStep.read());
    const clear = shares.map(({ variable, clear }) => graph.colocateWith(variable.handle, () => clear(step)));
    // A worker with a token may add to every accumulator.
    const open = counters ? [graph.controlDependencies(clear, () => counters.set(step))] : clear;
    const restart = graph.controlDependencies(open, () => tokens.topUp());
    const started = graph.colocateWith(globalStep.handle, () =>
      raw.varHandleOp({ dtype: 'int64', shape: [], sharedName: STARTED }),
    );
    return {
      sync: group([sync, marks.taken(taken)]),
      tokens,
      left,
      topUp: tokens.topUp(),
      handOut: tokens.add(),
      // Gradients that came before the counters were set are dropped: their workers compute them again.
      initTokens: counters ? restart : tokens.addFirst(),
      release: tokens.addOne(),
      close: tokens.close(),
      wasClosed: tokens.isClosed(),
      wasStarted: graph.colocateWith(globalStep.handle, () => raw.varIsInitializedOp(started)),
      markStarted: graph.colocateWith(globalStep.handle, () => raw.assignVariableOp(started, Tensor.of(1n))),
      restart,
      reset: group([
        ...shares.map(({ variable, clear }) => graph.colocateWith(variable.handle, () => clear(firstStep()))),
        ...(counters ? [counters.set(noStep())] : []),
      ]),
      setLocalStep: group([localStep.assign(globalStep.read()), marks.begins()]),
      attempt: marks.attempt,
      progress: progressOf(shares, tokens, globalStep, marks),
    };
  }
}

function progressOf(
  shares: readonly Share[],
  tokens: SyncTokens,
  globalStep: Variable<'int64'>,
  marks: SyncMarks,
): ChiefOps['progress'] {
  const { graph } = globalStep;
  return {
    step: graph.colocateWith(globalStep.handle, () => globalStep.read()) as Output<'int64'>,
    tokens: tokens.left(),
    workers: marks.ofWorkers(),
    devices: marks.ofDevices().map((taken, i) => {
      const device = marks.devices[i] as string;
      const { variable, count } = shares.find(({ variable }) => variable.device === device) as Share;
      return { device, taken, gradients: graph.colocateWith(variable.handle, count) };
    }),
  };
}
