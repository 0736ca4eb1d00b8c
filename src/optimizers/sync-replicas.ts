/**
 * Synchronous training. Each worker adds its gradients to accumulators beside the variables and waits for a
 * token; the chief takes the mean of `replicasToAggregate` gradients, applies it with the optimizer behind this
 * one, counts the step, and hands out a token for each replica. A gradient of a past step is dropped by the
 * accumulator. Replicas beyond `replicasToAggregate` are backups: the slowest of a step are not waited for.
 *
 * A token that died with its worker would be waited for by the others for ever: the chief puts one more into the
 * queue when a worker is lost (`replaceToken`). A token too many costs a dropped gradient, nothing more.
 *
 * Steps are made as long as the tokens of the present step, the workers that compute with one, and the gradients that were
 * given with one are together as many as a step needs. A chief that starts after another cannot know how many there are: it
 * drops the gradients and hands out tokens for a whole step (`restartOp`).
 */
import { invalid } from '../errors/errors.js';
import { IndexedSlices } from '../gradients/index.js';
import { currentGraph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { gather } from '../ops/arrays.js';
import { fill, group, noOp, zeros } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { cast } from '../ops/math.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';
import { Variable } from '../variables/variable.js';
import type {
  ApplyGradientsOptions,
  ComputeGradientsOptions,
  GradientAndVariable,
  Optimizer,
} from './optimizer.js';

export interface SyncReplicasOptions {
  /** How many gradients make a step. */
  readonly replicasToAggregate: number;
  /** How many workers there are; those beyond `replicasToAggregate` are backups. */
  readonly totalNumReplicas?: number;
  /** Where this worker's own step is kept: its device on a cluster. */
  readonly workerDevice?: string;
}

const TOKENS = 'sync_token_q';
/** A variable beside the queue, in no checkpoint: it has a value once steps may have been made. */
const STARTED = 'sync_replicas/started';
/** Tokens left from lost workers pile up slowly; the queue is only a bound against a fault. */
const QUEUE_CAPACITY = 100_000;

interface ChiefOps {
  readonly sync: Operation;
  readonly replaceToken: Operation;
  readonly initTokens: Operation;
  readonly release: Operation;
  readonly wasStarted: Output<'bool'>;
  readonly markStarted: Operation;
  readonly restart: Operation;
  readonly reset: Operation;
  readonly setLocalStep: Operation;
}

export class SyncReplicasOptimizer {
  readonly #inner: Optimizer;
  readonly #required: number;
  readonly #replicas: number;
  readonly #workerDevice: string | undefined;
  #ops: ChiefOps | undefined;

  constructor(inner: Optimizer, options: SyncReplicasOptions) {
    const { replicasToAggregate, totalNumReplicas = replicasToAggregate, workerDevice } = options;
    for (const [name, value] of Object.entries({ replicasToAggregate, totalNumReplicas })) {
      if (!Number.isSafeInteger(value) || value < 1)
        throw invalid(`${name} must be a number from 1, it is ${value}`);
    }
    this.#inner = inner;
    this.#required = replicasToAggregate;
    this.#replicas = totalNumReplicas;
    this.#workerDevice = workerDevice;
  }

  get #made(): ChiefOps {
    if (!this.#ops) throw invalid('Call minimize or applyGradients first');
    return this.#ops;
  }

  /** The chief runs this again and again: each run makes one step of gradients, when there are enough. */
  get syncOp(): Operation {
    return this.#made.sync;
  }

  /** The chief runs this once for each worker that is lost. */
  get replaceTokenOp(): Operation {
    return this.#made.replaceToken;
  }

  /** The chief runs this before the first step of all. */
  get initTokensOp(): Operation {
    return this.#made.initTokens;
  }

  /** The chief runs this after the last step: nobody waits for a token any more. */
  get releaseOp(): Operation {
    return this.#made.release;
  }

  /** Whether this chief or an earlier one has run `markStartedOp`, with the same ps for the global step. */
  get wasStarted(): Output<'bool'> {
    return this.#made.wasStarted;
  }

  get markStartedOp(): Operation {
    return this.#made.markStarted;
  }

  /**
   * The chief runs this before it makes steps after an earlier chief, or after a recovery. Accumulators that have seen a later
   * step would drop all gradients as stale, and workers may wait for tokens that nobody would hand out.
   */
  get restartOp(): Operation {
    return this.#made.restart;
  }

  /**
   * The chief runs this when variables were lost, before they have values again and anybody gives gradients: what the
   * accumulators and the queue hold is of steps that are lost too. It is in the graph's collection of reset ops.
   */
  get resetOp(): Operation {
    return this.#made.reset;
  }

  /** Every worker runs this before its first step, and when variables were lost: it begins where the others are. */
  get localStepInitOp(): Operation {
    return this.#made.setLocalStep;
  }

  computeGradients(loss: Output, options?: ComputeGradientsOptions): GradientAndVariable[] {
    return this.#inner.computeGradients(loss, options);
  }

  minimize(loss: Output, options: ComputeGradientsOptions & ApplyGradientsOptions = {}): Operation {
    return this.applyGradients(this.computeGradients(loss, options), options);
  }

  /** The op of a worker's step: gives its gradients, waits for the step to be made. */
  applyGradients(pairs: readonly GradientAndVariable[], options: ApplyGradientsOptions = {}): Operation {
    const { globalStep, name = 'sync_replicas' } = options;
    if (!globalStep) throw invalid('Synchronous training needs a globalStep');
    const graph = currentGraph();
    return graph.nameScope(name, () => {
      const localStep = this.#localStep(name);
      const tokens = graph.colocateWith(globalStep.handle, () =>
        raw.fifoQueueV2({
          componentTypes: ['int64'],
          shapes: [[]],
          capacity: QUEUE_CAPACITY,
          sharedName: TOKENS,
        }),
      );
      const given = pairs.filter(
        (pair): pair is [NonNullable<(typeof pair)[0]>, Variable] => pair[0] !== null,
      );
      const shares = given.map(([gradient, variable]) =>
        graph.colocateWith(variable.handle, () => share(gradient, variable, localStep)),
      );
      const trainOp = graph.controlDependencies(
        shares.map(({ give }) => give),
        () => {
          const [token] = graph.colocateWith(globalStep.handle, () =>
            raw.queueDequeueV2(tokens, { componentTypes: ['int64'] }),
          );
          return localStep.assign(token as Output, { name: 'local_step_update' });
        },
      );
      this.#ops = this.#chiefOps(shares, tokens, globalStep as Variable<'int64'>, localStep);
      graph.addToCollection(GraphKeys.resetOps, this.#ops.reset);
      return trainOp;
    });
  }

  #localStep(name: string): Variable<'int64'> {
    return Variable.create<'int64'>({
      name: `${name}_local_step`,
      initialValue: () => fill([], Tensor.of(0n)),
      trainable: false,
      collections: [GraphKeys.localVariables],
      ...(this.#workerDevice ? { device: this.#workerDevice } : {}),
    });
  }

  #chiefOps(
    shares: readonly Share[],
    tokens: Output,
    globalStep: Variable<'int64'>,
    localStep: Variable,
  ): ChiefOps {
    const { graph } = globalStep;
    const required = Tensor.of(this.#required, { dtype: 'int32' });
    const averaged = shares.map(
      ({ variable, take }): GradientAndVariable => [
        graph.colocateWith(variable.handle, () => take(required)),
        variable,
      ],
    );
    const update = this.#inner.applyGradients(averaged, { globalStep });
    const enqueue = (count: number, step: Output) =>
      count === 0
        ? noOp()
        : raw.queueEnqueueManyV2(tokens, [raw.fill(Tensor.of(Int32Array.of(count)), step)], {
            name: 'hand_out',
          });
    const tokensPerStep = Math.max(this.#required, this.#replicas);
    const sync = graph.controlDependencies([update], () =>
      graph.colocateWith(globalStep.handle, () => {
        const step = globalStep.read();
        const moved = shares.map(({ variable, advance }) =>
          graph.colocateWith(variable.handle, () => advance(step)),
        );
        return graph.controlDependencies(moved, () => enqueue(tokensPerStep, step));
      }),
    );
    const onChief = (count: number) =>
      graph.colocateWith(globalStep.handle, () => enqueue(count, globalStep.read()));
    const restart = graph.colocateWith(globalStep.handle, () => {
      const step = globalStep.read();
      const clear = shares.map(({ variable, clear }) =>
        graph.colocateWith(variable.handle, () => clear(step)),
      );
      // Whoever has a token may give to every accumulator.
      return graph.controlDependencies(clear, () => enqueue(tokensPerStep, step));
    });
    const started = graph.colocateWith(globalStep.handle, () =>
      raw.varHandleOp({ dtype: 'int64', shape: [], sharedName: STARTED }),
    );
    return {
      sync: group([sync]),
      replaceToken: onChief(1),
      initTokens: onChief(Math.max(0, this.#required - this.#replicas)),
      release: onChief(this.#replicas),
      wasStarted: graph.colocateWith(globalStep.handle, () => raw.varIsInitializedOp(started)),
      markStarted: graph.colocateWith(globalStep.handle, () => raw.assignVariableOp(started, Tensor.of(1n))),
      restart,
      reset: group([
        ...shares.map(({ variable, clear }) => graph.colocateWith(variable.handle, () => clear(first()))),
        graph.colocateWith(globalStep.handle, () => emptied(tokens)),
      ]),
      setLocalStep: localStep.assign(globalStep.read()),
    };
  }
}

/** One variable's accumulator: what a worker gives, what the chief takes. */
interface Share {
  readonly variable: Variable;
  readonly give: Operation;
  readonly take: (required: Tensor) => Output | IndexedSlices;
  readonly advance: (step: Output) => Operation;
  /** Drops what was given, and whatever is given of steps before this one. */
  readonly clear: (step: Output | Tensor) => Operation;
}

/** No step is later: a gradient of it is never stale. */
const latest = () => Tensor.of(2n ** 62n);
const first = () => Tensor.of(0n);
const one = () => Tensor.of(1, { dtype: 'int32' });

/** Takes all tokens that there are. */
function emptied(tokens: Output): Operation {
  const [taken] = raw.queueDequeueManyV2(tokens, raw.queueSizeV2(tokens), { componentTypes: ['int64'] });
  return group([(taken as Output).op]);
}

/** An accumulator gives what it has when it has anything: one gradient of zeros more makes sure of that. */
function cleared(zero: Operation, take: () => Operation, setStep: () => Operation): Operation {
  const graph = currentGraph();
  return graph.controlDependencies([zero], () => graph.controlDependencies([take()], setStep));
}

function share(gradient: Output | IndexedSlices, variable: Variable, localStep: Variable): Share {
  const { dtype, shape, name } = variable;
  const sharedName = `${name}/grad_accum`;
  if (!(gradient instanceof IndexedSlices)) {
    const sum = raw.resourceConditionalAccumulator({ dtype, shape, sharedName });
    return {
      variable,
      clear: (step) =>
        cleared(
          raw.resourceAccumulatorApplyGradient(sum, latest(), zeros(sizes(shape), dtype)),
          () => raw.resourceAccumulatorTakeGradient(sum, one(), { dtype }).op,
          () => raw.resourceAccumulatorSetGlobalStep(sum, step),
        ),
      give: raw.resourceAccumulatorApplyGradient(sum, localStep, gradient),
      take: (required) => raw.resourceAccumulatorTakeGradient(sum, required, { dtype }),
      advance: (step) => raw.resourceAccumulatorSetGlobalStep(sum, step),
    };
  }
  const sum = raw.sparseConditionalAccumulator({ dtype, shape, sharedName });
  const once = inOrder(gradient.deduplicated(), variable);
  const none = Tensor.of(new BigInt64Array(0));
  const row = () => zeros([1, ...sizes(shape).slice(1)], dtype);
  return {
    variable,
    clear: (step) =>
      cleared(
        raw.sparseAccumulatorApplyGradient(sum, latest(), Tensor.of(BigInt64Array.of(0n)), row(), none, {
          hasKnownShape: false,
        }),
        () => raw.sparseAccumulatorTakeGradient(sum, one(), { dtype }).values.op,
        () => raw.accumulatorSetGlobalStep(sum, step),
      ),
    give: raw.sparseAccumulatorApplyGradient(sum, localStep, once.indices, once.values, none, {
      hasKnownShape: false,
    }),
    take: (required) => {
      const { indices, values } = raw.sparseAccumulatorTakeGradient(sum, required, { dtype });
      return new IndexedSlices(values, indices, gradient.denseShape, true);
    },
    advance: (step) => raw.accumulatorSetGlobalStep(sum, step),
  };
}

/** A variable's shape is known in full. */
const sizes = (shape: Variable['shape']): number[] => (shape ?? []).map(Number);

/**
 * The rows by their numbers. The accumulator merges what it is given as ordered lists: of others it would keep rows twice,
 * or not, as it happens, and the mean of a row would depend on who came first. Each row is the mean of those who have it.
 */
function inOrder({ indices, values }: IndexedSlices, { shape }: Variable) {
  const places = raw.range(
    Tensor.of(0, { dtype: 'int32' }),
    raw.size(indices),
    Tensor.of(1, { dtype: 'int32' }),
  );
  const column = raw.expandDims(cast(indices, 'int64'), Tensor.of(1, { dtype: 'int32' }));
  const rows = Tensor.of(BigInt64Array.of(BigInt(shape?.[0] ?? Number.MAX_SAFE_INTEGER)));
  const ordered = raw.sparseReorder(column, places, rows);
  return {
    indices: raw.squeeze(ordered.outputIndices, { squeezeDims: [1] }),
    values: gather(values, ordered.outputValues),
  };
}
