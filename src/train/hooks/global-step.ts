/** Reads the global step for hooks. A value fetched within a run may be from before or after that run's update. */
import { invalid } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { getGlobalStep } from '../../variables/global-step.js';
import type { TrainingRunner } from '../task/training-runner.js';

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
export async function readStep(session: TrainingRunner, step: Output<'int64'>): Promise<number> {
  return (await session.run(step)).number();
}
