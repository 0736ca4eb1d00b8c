/** The message and the exit code of a command that failed. */
import { isShoalError, ShoalError } from '../errors/errors.js';

/** What a shell reports for a program that Ctrl-C ended. */
const INTERRUPTED = 130;
const USAGE = 2;
/** The task should be restarted, at another port or on another machine. */
const TRY_ELSEWHERE = 75;

/** A mistake on the command line, whatever the error's code. */
export class UsageError extends ShoalError {}

/** Shoal's own errors have a complete message; for all others the stack is shown. */
export function describeFailure(error: unknown): string {
  if (error instanceof ShoalError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? cleanStack(error) : String(error);
}

export function exitCodeOfFailure(error: unknown): number {
  if (isShoalError(error, 'SHOAL_ABORTED')) return INTERRUPTED;
  if (isShoalError(error, 'SHOAL_WORKERS_LOST')) return TRY_ELSEWHERE;
  if (error instanceof UsageError) return USAGE;
  if (!isShoalError(error, 'SHOAL_CONFIG')) return 1;
  const cause = error.cause as NodeJS.ErrnoException | undefined;
  return cause?.code === 'EADDRINUSE' ? TRY_ELSEWHERE : USAGE;
}

/** Stack frames of Node, of the loader and of the command line itself, which do not help the user. */
const INTERNAL_FRAME =
  /^ {4}at .*(node:internal\/|\/node_modules\/(tsx|@stricli)\/|data:text\/javascript|\/(src|dist)\/cli\/)/;

export function cleanStack(error: Error): string {
  const stack = error.stack ?? error.message;
  const lines = stack
    .split('\n')
    .filter((line) => !INTERNAL_FRAME.test(line))
    .map((line) => line.replace('file://', ''));
  const cause = error.cause instanceof Error ? [`  [cause]: ${cleanStack(error.cause)}`] : [];
  return [...lines, ...cause].join('\n');
}
