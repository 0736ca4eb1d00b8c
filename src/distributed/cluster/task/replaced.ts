/** How a process ends that is no longer a member of its cluster. */
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { EXIT, exitCodeOf } from '../../../base/errors/exit-codes.js';
import { exitImmediately } from '../../../tensorflow/native/threads/exit.js';
import { REPLACED } from '../membership/fence.js';
import type { Effect } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';

/**
 * A process that was replaced may be refused before it learns of its successor. The refusal would fail it like any
 * error; instead it learns of the successor first, and ends as replaced.
 */
export async function unlessReplaced<T>(call: Promise<T>, learn: () => Promise<void>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (isShoalError(error, 'SHOAL_FORBIDDEN') && error.message.includes(REPLACED)) await learn();
    throw error;
  }
}

/** Why a process is no longer a member. */
export function exitError(task: TaskId, reason: Extract<Effect, { type: 'exit' }>['reason']): ShoalError {
  if (reason.kind === 'incompatible')
    return new ShoalError('SHOAL_VERSION_MISMATCH', reason.why, {
      task,
      ...(reason.hint !== undefined && { hint: reason.hint }),
    });
  const why =
    reason.kind === 'removed'
      ? 'the chief removed it'
      : `incarnation ${reason.by.incarnation} at ${reason.by.agentAddress} replaced it`;
  return new ShoalError('SHOAL_FORBIDDEN', `${task} is no longer a member of the cluster: ${why}`, { task });
}

/** An ordinary exit could wait forever for a TensorFlow call to a peer that is gone. */
export function endReplaced(error: ShoalError): never {
  const code = error.code === 'SHOAL_VERSION_MISMATCH' ? exitCodeOf(error) : EXIT.superseded;
  process.exitCode = code;
  process.emit('exit', code);
  exitImmediately(code);
}
