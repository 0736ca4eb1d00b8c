/**
 * SIGTERM preempts a task: its machine is needed, and the task will be started again, here or elsewhere. It leaves the
 * others in a state in which they wait for it, and exits with the code of a retry. SIGINT, SIGHUP and a closed output
 * stop the task for good.
 */
import { EXIT } from '../../../base/errors/exit-codes.js';

/** Whether a stop signal means that the task will be started again. */
export const isPreempted = (signal: AbortSignal): boolean => signal.aborted && signal.reason === 'SIGTERM';

/** The exit code of a task that a signal stopped before the end of its work. */
export const stoppedCode = (signal: AbortSignal): number =>
  isPreempted(signal) ? EXIT.retry : EXIT.interrupted;
