/** Asks Python TensorFlow: one process for all cases of a test file. */
import { askPython } from '../../../test/python.js';

/** Answers of `testing/<program>.py`, one for each case. */
export function askOracle<A>(program: string, cases: readonly unknown[]): Promise<A[]> {
  return askPython<A[]>(new URL(`${program}.py`, import.meta.url), cases);
}
