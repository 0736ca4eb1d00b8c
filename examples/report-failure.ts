/** Ends a program whose task could not start: an expected error is shown without a stack. */
import { exitCodeOf, isShoalError } from 'shoal';

export function reportFailure(error: unknown): never {
  if (!isShoalError(error)) throw error;
  console.error(`${error.code}: ${error.message}${error.hint ? `\n  hint: ${error.hint}` : ''}`);
  process.exit(exitCodeOf(error));
}
