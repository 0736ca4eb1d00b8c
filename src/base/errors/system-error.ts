/** Errors of the operating system, as Node reports them: `EIO: i/o error, read`. */
import { isShoalError } from './errors.js';

/** Codes that concern the process or the machine, not the requested file. */
const OF_THE_PROCESS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR']);

export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}

/** Whether the process ran out of a resource: any other file would fail too. */
export function isExhausted(error: unknown): boolean {
  return isSystemError(error) && OF_THE_PROCESS.has(error.code ?? '');
}

/** Whether another replica may still be readable: false for denied access, exhausted resources and bugs. */
export function isCopyFault(error: unknown): boolean {
  if (isShoalError(error)) return error.code !== 'SHOAL_FORBIDDEN';
  return isSystemError(error) && !isExhausted(error);
}
