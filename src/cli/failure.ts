/** How an error that ended a command is shown. */
import { ShoalError } from '../errors/errors.js';

/** Shoal's own errors explain themselves; of anything else the stack is the best that can be shown. */
export function describeFailure(error: unknown): string {
  if (error instanceof ShoalError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
