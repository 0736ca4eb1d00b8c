/** Reads the global step for hooks. A value fetched within a run may be from before or after that run's update. */
import { invalid } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { TrainingRunner } from '../task/training-runner.js';
import type { SessionRunContext, SessionRunValues } from './session-run-hook.js';

/** The output that reads the graph's global step. `hook` is named in the error if there is none. */
export function globalStepRead(graph: Graph, hook: string): Output<'int64'> {
  const globalStep = getGlobalStep(graph);
  if (!globalStep) {
    throw invalid(`${hook} needs a global step, and the graph has none`, {
      hint: 'Call tf.getOrCreateGlobalStep() and pass it to minimize: { globalStep }.',
    });
  }
  return graph.asDefault(() => globalStep.toOutput());
}

/** Reads the current step. */
export async function readStep(session: TrainingRunner, step: Output): Promise<number> {
  return seen(session, await session.run(step));
}

/** The step that a hook has fetched in a run. */
export const fetchedStep = (
  { session }: SessionRunContext,
  { results }: SessionRunValues<Tensor<'int64'>>,
): number => seen(session, results);

function seen({ server }: TrainingRunner, value: Tensor): number {
  const step = value.number();
  server?.onStep(step);
  return step;
}
