/** How a process ends that another one has replaced. */
import { isShoalError } from '../../errors/errors.js';
import { EXIT } from '../../errors/exit-codes.js';
import type { Identity } from '../membership/map.js';
import { REPLACED } from '../membership/membership.js';

/** Why a request of a process that was replaced is refused. */
export const refusalOfReplaced = ({ task, incarnation }: Identity): string =>
  `${task}, incarnation ${incarnation}, ${REPLACED}`;

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

/** An ordinary exit could wait forever for a TensorFlow call to a peer that is gone. */
export async function endProcess(): Promise<void> {
  const { exitImmediately } = await import('../../native/exit.js');
  process.exitCode = EXIT.superseded;
  process.emit('exit', EXIT.superseded);
  exitImmediately(EXIT.superseded);
}
