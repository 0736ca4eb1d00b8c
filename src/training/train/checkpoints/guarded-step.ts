/** The global step of saves and restores. On a cluster the step of a snapshot must not be lower than any before. */

import { invalid, isShoalError } from '../../../base/errors/errors.js';
import type { SavedStep } from '../../../distributed/checkpoint/protocol/save.js';
import { isOutputLike, type OutputLike } from '../../../tensorflow/graph/operation.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { READ_STEP_MS, readGlobalStep } from '../recovery/read-global-step.js';
import type { TrainingRunner } from '../task/training-runner.js';

/** The step of a snapshot. @param given the number of the checkpoint, or what has it; default: the global step. */
export async function readStep(
  session: TrainingRunner,
  signal: AbortSignal | undefined,
  given?: number | bigint | Tensor | OutputLike,
): Promise<SavedStep> {
  const globalStep = globalStepOf(session);
  const options = { timeoutMs: READ_STEP_MS, signal };
  const read = async () => (await readGlobalStep(session, options)) ?? 0;
  const alarm = session.server?.checkpoints.stepAlarm;
  const reading = globalStep && (alarm ? alarm.read(globalStep, read) : read());
  const now = await reading?.catch((error: unknown) => {
    // A saver of some variables, with a number of its own, needs no value of the global step.
    if (given !== undefined && isShoalError(error, 'SHOAL_TF_FAILED_PRECONDITION')) return undefined;
    throw error;
  });
  const counted = now === undefined ? {} : { globalStep: now };
  const source = given ?? globalStep ?? 0;
  if (source === globalStep && now !== undefined) return { step: now, ...counted };
  const value = isOutputLike(source) ? await session.run(source.toOutput(), options) : source;
  const step = Number(value instanceof Tensor ? value.item() : value);
  if (!Number.isSafeInteger(step) || step < 0)
    throw invalid(`The globalStep of a checkpoint must be an integer of at least 0; it is ${step}`);
  return { step, ...counted };
}

/** A restore, after which the global step may be lower. */
export async function restoring<T>(session: TrainingRunner, restore: () => Promise<T>): Promise<T> {
  const alarm = session.server?.checkpoints.stepAlarm;
  alarm?.reset();
  try {
    return await restore();
  } finally {
    alarm?.reset();
  }
}
