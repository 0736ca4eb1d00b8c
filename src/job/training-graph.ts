/** The graph of a job: input, model, train op, global step. Each task builds it for itself. */
import { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { DeviceScope } from '../graph/scope.js';
import { Dataset } from '../input/dataset.js';
import { SparseTensor } from '../layers/sparse-tensor.js';
import { asOutput } from '../ops/build.js';
import type { Optimizer } from '../optimizers/optimizer.js';
import { SyncReplicasOptimizer } from '../optimizers/sync-replicas.js';
import { GraphKeys } from '../variables/collections.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import { tablesInitializer } from '../variables/initialize.js';
import type { Variable } from '../variables/variable.js';
import type { InputValues, JobDefinition, JobInput, Replica } from './define-job.js';

export interface TrainingGraph {
  readonly graph: Graph;
  readonly globalStep: Variable<'int64'>;
  readonly loss: Output;
  readonly trainOp: Operation;
  /** The global step as this very step left it: read after the update. */
  readonly stepAfter: Output<'int64'>;
  readonly outputs: Readonly<Record<string, Output>>;
  /** Starts tables and the iterators of datasets, on each worker for itself. */
  readonly localInit: Operation | undefined;
  /** What keeps the workers in step, in synchronous training. */
  readonly sync: SyncReplicasOptimizer | undefined;
}

export interface Placement extends Replica {
  readonly device: DeviceScope | null;
  readonly workerDevice?: string;
}

const ALONE: Placement = { index: 0, count: 1, device: null };

export function buildTrainingGraph(job: JobDefinition, placement: Placement = ALONE): TrainingGraph {
  const { device, index, count } = placement;
  const graph = new Graph();
  if (job.seed !== undefined) graph.seed = job.seed;
  const build = (): TrainingGraph => {
    const globalStep = getOrCreateGlobalStep(graph);
    const model = job.model({ input: inputOf(job, { index, count }) });
    const loss = model.loss.toOutput();
    const sync = syncOptimizer(job, model.optimizer, placement);
    const trainOp = (sync ?? model.optimizer).minimize(loss, { globalStep });
    const stepAfter = graph.controlDependencies([trainOp], () => globalStep.read());
    const outputs = Object.fromEntries(
      Object.entries(model.outputs ?? {}).map(([name, output]) => [name, output.toOutput()]),
    );
    const hasTables = graph.getCollection(GraphKeys.tableInitializers).length > 0;
    const localInit = hasTables ? tablesInitializer(graph) : undefined;
    return { graph, globalStep, loss, trainOp, stepAfter, outputs, sync, localInit };
  };
  return graph.asDefault(() => (device === null ? build() : graph.device(device, build)));
}

function inputOf(job: JobDefinition, replica: Replica): JobInput<InputValues> {
  return modelInput(job.input?.(replica));
}

/** What a model gets of values, or of the elements of a dataset. */
export function modelInput(given: InputValues | Dataset<InputValues> = {}): JobInput<InputValues> {
  const values = given instanceof Dataset ? (given.iterator().getNext() as InputValues) : given;
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value instanceof SparseTensor ? value : asOutput(value),
    ]),
  ) as JobInput<InputValues>;
}

function syncOptimizer(
  { train }: JobDefinition,
  optimizer: Optimizer,
  { count, workerDevice }: Placement,
): SyncReplicasOptimizer | undefined {
  if (!train.sync || count === 1) return undefined;
  const replicasToAggregate = train.sync === true ? count : train.sync.replicasToAggregate;
  return new SyncReplicasOptimizer(optimizer, {
    replicasToAggregate,
    totalNumReplicas: count,
    ...(workerDevice ? { workerDevice } : {}),
  });
}
