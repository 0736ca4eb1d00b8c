/** The graph of a job: input, model, train op, global step. Each task builds it for itself. */
import { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { DeviceScope } from '../graph/scope.js';
import { asOutput } from '../ops/build.js';
import type { Optimizer } from '../optimizers/optimizer.js';
import { SyncReplicasOptimizer } from '../optimizers/sync-replicas.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import type { Variable } from '../variables/variable.js';
import type { JobDefinition, Replica } from './define-job.js';

export interface TrainingGraph {
  readonly graph: Graph;
  readonly globalStep: Variable<'int64'>;
  readonly loss: Output;
  readonly trainOp: Operation;
  /** The global step as this very step left it: read after the update. */
  readonly stepAfter: Output<'int64'>;
  readonly outputs: Readonly<Record<string, Output>>;
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
    const input = Object.fromEntries(
      Object.entries(job.input?.({ index, count }) ?? {}).map(([name, operand]) => [name, asOutput(operand)]),
    );
    const model = job.model({ input });
    const loss = model.loss.toOutput();
    const sync = syncOptimizer(job, model.optimizer, placement);
    const trainOp = (sync ?? model.optimizer).minimize(loss, { globalStep });
    const stepAfter = graph.controlDependencies([trainOp], () => globalStep.read());
    const outputs = Object.fromEntries(
      Object.entries(model.outputs ?? {}).map(([name, output]) => [name, output.toOutput()]),
    );
    return { graph, globalStep, loss, trainOp, stepAfter, outputs, sync };
  };
  return graph.asDefault(() => (device === null ? build() : graph.device(device, build)));
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
