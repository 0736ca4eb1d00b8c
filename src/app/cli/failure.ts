/** The message and the exit code of a command that failed. */
import { hintLineOf, hintOf, messageOf, ShoalError } from '../../base/errors/errors.js';
import { EXIT, exitCodeOf } from '../../base/errors/exit-codes.js';
import { userFrameOf } from './user-frame.js';

/** A mistake on the command line, whatever the error's code. */
export class UsageError extends ShoalError {}

/**
 * Shoal's own errors have a complete message, which is followed by the place in the user's program; for all others the
 * stack is shown.
 */
export function describeFailure(error: unknown): string {
  if (error instanceof ShoalError) {
    const at = userFrameOf(error);
    return `${error.code}: ${ownMessage(error)}${at ? `\n  at ${at}` : ''}${hintLineOf(error)}`;
  }
  return error instanceof Error ? `${cleanStack(error)}${hintLineOf(error)}` : String(error);
}

/** The message without TensorFlow's name of the status, which is part of the code. */
function ownMessage({ code, message }: ShoalError): string {
  const status = `${code.replace(/^SHOAL_TF_/, '')}: `;
  return message.startsWith(status) ? message.slice(status.length) : message;
}

/** The same as one line of JSON, for commands with --json. Fields without a value are left out. */
export function describeFailureAsJson(error: unknown): string {
  return JSON.stringify({ level: 'error', ...failureData(error) });
}

export function failureData(error: unknown) {
  const isOwn = error instanceof ShoalError;
  return {
    code: isOwn ? error.code : undefined,
    message: isOwn ? ownMessage(error) : messageOf(error),
    hint: hintOf(error),
    at: userFrameOf(error),
    stack: error instanceof Error && !isOwn ? cleanStack(error) : undefined,
  };
}

export function exitCodeOfFailure(error: unknown): number {
  return error instanceof UsageError ? EXIT.usage : exitCodeOf(error);
}

/** Stack frames of Node, of the loader and of the command line itself, which do not help the user. */
const INTERNAL_FRAME =
  /^ {4}at .*(node:internal\/|\/node_modules\/(tsx|@stricli)\/|data:text\/javascript|\/(src|dist)\/app\/cli\/)/;

export function cleanStack(error: Error): string {
  const stack = error.stack ?? error.message;
  const lines = stack
    .split('\n')
    .filter((line) => !INTERNAL_FRAME.test(line))
    .map((line) => line.replace('file://', ''));
  // In the bundle the command line has no directory of its own: it is what called the program of the user.
  const last = lines.findLastIndex((line) => line.startsWith('    at ') && !line.includes('/dist/bundle/'));
  const shown = last === -1 ? lines : lines.slice(0, last + 1);
  const cause = error.cause instanceof Error ? [`  [cause]: ${cleanStack(error.cause)}`] : [];
  return [...shown, ...cause].join('\n');
}
