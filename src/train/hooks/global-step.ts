/** How hooks see the global step. Within a run its value may be of before or after that run's update. */
import { invalid } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { getGlobalStep } from '../../variables/global-step.js';
import type { TrainingRunner } from '../recovery/training-runner.js';

/** The read of the graph's global step; `who` is told that there is none. */
export function globalStepRead(graph: Graph, who: string): Output<'int64'> {
  const globalStep = getGlobalStep(graph);
  if (!globalStep) {
    throw invalid(`${who} needs a global step, and the graph has none`, {
      hint: 'Call tf.getOrCreateGlobalStep() and give it to minimize: { globalStep }.',
    });
  }
  return graph.asDefault(() => globalStep.toOutput());
}

/** The step of this moment. */
export async function readStep(session: TrainingRunner, step: Output<'int64'>): Promise<number> {
  return (await session.run(step)).number();
}
