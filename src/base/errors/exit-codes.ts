import { isShoalError, type ShoalCode } from './errors.js';

/** The exit codes of `shoal` and of its tasks. */
export const EXIT = {
  done: 0,
  error: 1,
  usage: 2,
  /** A restart continues: the task was preempted, its port was in use, native calls hang, or the cluster was lost or absent. */
  retry: 75,
  /** A newer process replaced this task; do not restart it, or it would replace the newer one. */
  superseded: 76,
  interrupted: 130,
} as const;

const EXIT_OF_CODE: Readonly<Partial<Record<ShoalCode, number>>> = {
  SHOAL_ABORTED: EXIT.interrupted,
  SHOAL_ADDRESS_IN_USE: EXIT.retry,
  SHOAL_CONFIG: EXIT.usage,
  // The same values would fail again.
  SHOAL_NAN: EXIT.usage,
  SHOAL_VERSION_MISMATCH: EXIT.usage,
  SHOAL_WORKERS_LOST: EXIT.retry,
};

/** The exit code of a program that ends with this error. */
export function exitCodeOf(error: unknown): number {
  return (isShoalError(error) ? EXIT_OF_CODE[error.code] : undefined) ?? EXIT.error;
}
