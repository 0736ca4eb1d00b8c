/** The graph of a job: input, model, train op, global step. Each task builds its own. */

import { invalid } from '../../../base/errors/errors.js';
import type { DeviceScope } from '../../../tensorflow/graph/device.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { asOutput } from '../../../tensorflow/ops/build.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { mul } from '../../../tensorflow/ops/math.js';
import { CombinedOptimizer } from '../../../tensorflow/optimizers/combined.js';
import type { Optimizer } from '../../../tensorflow/optimizers/optimizer.js';
import { SyncReplicasOptimizer } from '../../../tensorflow/optimizers/sync/sync-replicas.js';
import { mergeAll, scalar } from '../../../tensorflow/summary/ops.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { getOrCreateGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { tablesInitializer } from '../../../tensorflow/variables/initialize.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { newVariable } from '../../../tensorflow/variables/variable-scope.js';
import { Dataset } from '../../../training/input/dataset/dataset.js';
import { ShardedFiles } from '../../../training/input/leases/sharded-files.js';
import { StepMarks } from '../../../training/input/leases/step-marks.js';
import type { ShardParts } from '../../../training/train/leases/shard-parts.js';
import { callModel, checkInput, inputName } from '../definition/call-model.js';
import {
  type InputParts,
  type InputValues,
  type JobDefinition,
  type ModelInput,
  notElastic,
  type Replica,
  WHY_LEASED,
} from '../definition/define-job.js';
import { rateRule } from '../definition/metric-options.js';
import { type Leasing, leasingOf } from './leasing.js';

export interface TrainingGraph {
  readonly graph: Graph;
  readonly globalStep: Variable<'int64'>;
  readonly loss: Output;
  readonly trainOp: Operation;
  /** The global step, read after the update of the same run. */
  readonly stepAfter: Output<'int64'>;
  readonly outputs: Readonly<Record<string, Output>>;
  /** Initializes tables and dataset iterators, on each worker. */
  readonly localInit: Operation | undefined;
  /** Set in synchronous training. */
  readonly sync: SyncReplicasOptimizer | undefined;
  /** All summaries of the model, merged; undefined if it has none or they are disabled. */
  readonly summaryOp: Output<'string'> | undefined;
  /** Set if the input is leased. */
  readonly shards: ShardParts | undefined;
  /** A log line about input that is not leased. */
  readonly inputLine: string | undefined;
  /** Set if the learning rate is reduced during training. */
  readonly rate: ReducedRate | undefined;
}

/** What the learning rate of all optimizers is multiplied by: a variable of every checkpoint. */
export interface ReducedRate {
  readonly factor: Variable;
  /** Assigns `value` to it. */
  readonly assign: Operation;
  readonly value: Output;
  /** The learning rate of the optimizer, if it is one number. */
  readonly base: number | undefined;
}

export interface Placement extends Replica {
  readonly device: DeviceScope | null;
  readonly workerDevice?: string;
}

const LOCAL: Placement = { index: 0, count: 1, device: null };

export function buildTrainingGraph(job: JobDefinition, placement: Placement = LOCAL): TrainingGraph {
  const { device } = placement;
  const graph = new Graph();
  if (job.seed !== undefined) graph.seed = job.seed;
  const build = (): TrainingGraph => {
    const globalStep = getOrCreateGlobalStep(graph);
    const { values, shards, inputLine } = inputOf(job, placement);
    const model = callModel(job, { input: values, training: true, params: job.params ?? {} }, [
      'loss',
      'optimizer',
    ]);
    const loss = model.loss.toOutput();
    const sync = syncOptimizer(job, model.optimizer, placement);
    const rate = reducedRate(job, model.optimizer);
    const rateFactor = rate?.factor.toOutput();
    const trainOp = (sync ?? model.optimizer).minimize(loss, {
      globalStep,
      guard: shards?.marks,
      ...(rateFactor && { rateFactor }),
    });
    const stepAfter = graph.controlDependencies([trainOp], () => globalStep.read());
    const outputs = Object.fromEntries(
      Object.entries(model.outputs ?? {}).map(([name, output]) => [name, output.toOutput()]),
    );
    const hasTables = graph.getCollection(GraphKeys.tableInitializers).length > 0;
    const localInit = hasTables ? tablesInitializer(graph) : undefined;
    const summaryOp = summaryOf(job, { loss, optimizer: model.optimizer, globalStep, rateFactor });
    const step = { globalStep, loss, trainOp, stepAfter, outputs, summaryOp };
    return { graph, ...step, sync, localInit, shards, inputLine, rate };
  };
  return graph.asDefault(() => (device === null ? build() : graph.device(device, build)));
}

/** The summaries of the model; of its loss and learning rate if the job asks for some and the model has none. */
function summaryOf(
  { train: { summaries } }: JobDefinition,
  {
    loss,
    optimizer,
    globalStep,
    rateFactor,
  }: Pick<TrainingGraph, 'loss' | 'globalStep'> & {
    readonly optimizer: Optimizer;
    readonly rateFactor: Output | undefined;
  },
): Output<'string'> | undefined {
  if (summaries === false) return undefined;
  const own = mergeAll(undefined, loss.graph);
  if (own || !summaries) return own;
  scalar('loss', loss);
  for (const { learningRate } of optimizer instanceof CombinedOptimizer ? optimizer.members : [optimizer])
    if (learningRate !== undefined) {
      const own = typeof learningRate === 'function' ? learningRate(globalStep) : learningRate;
      scalar('learning_rate', rateFactor ? mul(rateFactor, own) : own);
    }
  return mergeAll(undefined, loss.graph);
}

/** The factor of the learning rate, if the job reduces it. */
function reducedRate(job: JobDefinition, { learningRate }: Optimizer): ReducedRate | undefined {
  const rule = rateRule(job);
  if (!rule) return undefined;
  const base = typeof learningRate === 'number' ? learningRate : undefined;
  if (rule.min > 0 && base === undefined)
    throw invalid(
      `train.reduceLearningRate.min of job '${job.name}' needs a learning rate that is one number`,
      {
        hint: 'The learning rate is a schedule, or there are several optimizers: leave out min.',
      },
    );
  const factor = newVariable(() => constant(1), { name: 'learning_rate_factor', trainable: false });
  const value = raw.placeholder({ dtype: 'float32', shape: [] });
  return { factor, value, assign: factor.assign(value), base };
}

function inputOf(
  job: JobDefinition,
  placement: Placement,
): Pick<TrainingGraph, 'shards' | 'inputLine'> & { readonly values: ModelInput<InputValues> } {
  const { index, count } = placement;
  const what = inputName(job);
  let isOwn = false;
  const inputParts: InputParts = {
    params: job.params ?? {},
    get index() {
      isOwn = true;
      return index;
    },
    get count() {
      isOwn = true;
      return count;
    },
  };
  const given = typeof job.input === 'function' ? job.input(inputParts) : job.input;
  if (!(given instanceof Dataset || given instanceof ShardedFiles)) {
    if (job.train.elastic) throw notElastic(job.name, WHY_LEASED);
    return { values: modelInput(what, given), shards: undefined, inputLine: undefined };
  }
  const leasing = leasingOf(job, given, { workers: count, isOwn });
  if (leasing.kind === 'whole')
    return {
      values: modelInput(what, given as Dataset<InputValues>),
      shards: undefined,
      inputLine: leasing.line,
    };
  const shards = shardParts(job, leasing, placement);
  return { values: modelInput(what, shards.value), shards, inputLine: undefined };
}

/** The input of the model from values, or from the elements of a dataset; `what` returns them. */
export function modelInput(
  what: string,
  given: InputValues | Dataset<InputValues> = {},
): ModelInput<InputValues> {
  const values = given instanceof Dataset ? (given.iterator().getNext() as InputValues) : given;
  checkInput(what, values);
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value instanceof SparseTensor ? value : asOutput(value),
    ]),
  ) as ModelInput<InputValues>;
}

function shardParts(
  { train }: JobDefinition,
  { input: files, hint }: Leasing & { readonly kind: 'leased' },
  { device, workerDevice }: Placement,
): ShardParts & { readonly value: InputValues } {
  const built = files.build();
  const zero = constant(Tensor.of(0n));
  const slot = (train.inflight ?? 1) === 1 ? zero : raw.placeholderWithDefault(zero, { shape: [] });
  const marks =
    device && workerDevice && !train.sync
      ? new StepMarks(workerDevice, built.position, slot as Output<'int64'>)
      : undefined;
  return { ...built, files, hint, slot: slot as Output<'int64'>, marks };
}

function syncOptimizer(
  { train }: JobDefinition,
  optimizer: Optimizer,
  { index, count, workerDevice }: Placement,
): SyncReplicasOptimizer | undefined {
  if (!train.sync || count === 1) return undefined;
  const { replicasToAggregate = count, deterministic } = train.sync === true ? {} : train.sync;
  return new SyncReplicasOptimizer(optimizer, {
    replicasToAggregate,
    totalNumReplicas: count,
    deterministic,
    ...(workerDevice ? { workerDevice } : { workerIndex: index }),
  });
}
