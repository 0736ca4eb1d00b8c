/** Errors of the operating system, as Node reports them: `EIO: i/o error, read`. */
import { isShoalError } from './errors.js';

/** Codes that describe the process or the machine, not the file that was asked for. */
const OF_THE_PROCESS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR']);

export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}

/** Whether the process has run out of something: another file would fail in the same way. */
export function isExhausted(error: unknown): boolean {
  return isSystemError(error) && OF_THE_PROCESS.has(error.code ?? '');
}

/** Whether a failure to read one copy of something leaves hope for the others: all but a refusal and a programming error. */
export function isCopyFault(error: unknown): boolean {
  if (isShoalError(error)) return error.code !== 'SHOAL_FORBIDDEN';
  return isSystemError(error) && !isExhausted(error);
}
