/** How an error that ended a command is shown, and what the command exits with. */
import { isShoalError, ShoalError } from '../errors/errors.js';

/** As a shell shows a program that Ctrl-C ended. */
const INTERRUPTED = 130;
const USAGE = 2;
/** Start it again elsewhere. */
const TRY_ELSEWHERE = 75;

/** A mistake in what was typed, whatever its code. */
export class UsageError extends ShoalError {}

/** Shoal's own errors explain themselves; of anything else the stack is the best that can be shown. */
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

/** Frames of Node, of the loader and of the command line itself: they say nothing about the program. */
const IDLE_FRAME =
  /^ {4}at .*(node:internal\/|\/node_modules\/(tsx|@stricli)\/|data:text\/javascript|\/(src|dist)\/cli\/)/;

export function cleanStack(error: Error): string {
  const stack = error.stack ?? error.message;
  const lines = stack
    .split('\n')
    .filter((line) => !IDLE_FRAME.test(line))
    .map((line) => line.replace('file://', ''));
  const cause = error.cause instanceof Error ? [`  [cause]: ${cleanStack(error.cause)}`] : [];
  return [...lines, ...cause].join('\n');
}
