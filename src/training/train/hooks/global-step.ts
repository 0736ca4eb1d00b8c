/** The global step of hooks: what they fetch in each run, and its current value. */
import { invalid } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { getGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { readGlobalStep } from '../recovery/read-global-step.js';
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

/** The current step; the graph of a hook with `globalStepRead` has one. */
export const currentStep = async (session: TrainingRunner): Promise<number> =>
  (await readGlobalStep(session)) ?? 0;

/** The step that a hook has fetched in a run, from before or after the run's update. */
export function fetchedStep(
  { session: { server } }: SessionRunContext,
  { results }: SessionRunValues<Tensor<'int64'>>,
): number {
  const step = results.number();
  server?.onStep(step);
  return step;
}
