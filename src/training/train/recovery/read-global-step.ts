/**
 * Reads the global step of a training, for all that need its current value, and reports it to the server of the task, for
 * the status and for the steps that a loss costs. A value fetched within a training step may be from before its update.
 */
import type { Runner, RunOptions } from '../../../tensorflow/session/runner.js';
import { type Counted, globalStepOf } from '../../../tensorflow/variables/global-step.js';

/** How long a read may take that no training step waits for. */
export const READ_STEP_MS = 30_000;

export interface StepReader extends Runner, Counted {
  readonly server?: { readonly onStep: (step: number) => void } | undefined;
}

/** Undefined without a global step. */
export async function readGlobalStep(
  session: StepReader,
  options?: Pick<RunOptions, 'timeoutMs' | 'signal'>,
): Promise<number | undefined> {
  const globalStep = globalStepOf(session);
  if (!globalStep) return undefined;
  const read = session.graph.asDefault(() => globalStep.toOutput());
  const step = (await session.run(read, options)).number();
  session.server?.onStep(step);
  return step;
}
