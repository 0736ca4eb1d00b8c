/** The graph of a job: input, model, train op, global step. Each task builds it for itself. */
import { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { DeviceScope } from '../graph/scope.js';
import { asOutput } from '../ops/build.js';
import { getOrCreateGlobalStep } from '../variables/global-step.js';
import type { Variable } from '../variables/variable.js';
import type { JobDefinition } from './define-job.js';

export interface TrainingGraph {
  readonly graph: Graph;
  readonly globalStep: Variable<'int64'>;
  readonly loss: Output;
  readonly trainOp: Operation;
  /** The global step as this very step left it: read after the update. */
  readonly stepAfter: Output<'int64'>;
  readonly outputs: Readonly<Record<string, Output>>;
}

export function buildTrainingGraph(job: JobDefinition, device: DeviceScope | null): TrainingGraph {
  const graph = new Graph();
  if (job.seed !== undefined) graph.seed = job.seed;
  const build = (): TrainingGraph => {
    const globalStep = getOrCreateGlobalStep(graph);
    const input = Object.fromEntries(
      Object.entries(job.input?.() ?? {}).map(([name, operand]) => [name, asOutput(operand)]),
    );
    const model = job.model({ input });
    const loss = model.loss.toOutput();
    const trainOp = model.optimizer.minimize(loss, { globalStep });
    const stepAfter = graph.controlDependencies([trainOp], () => globalStep.read());
    const outputs = Object.fromEntries(
      Object.entries(model.outputs ?? {}).map(([name, output]) => [name, output.toOutput()]),
    );
    return { graph, globalStep, loss, trainOp, stepAfter, outputs };
  };
  return graph.asDefault(() => (device === null ? build() : graph.device(device, build)));
}
