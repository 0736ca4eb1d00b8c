/** Runs all cases of a test file in one Python TensorFlow process. */
import { askPython } from '../../../../test/python.js';

/** The answers of `testing/<program>.py`, one per case. */
export function askOracle<A>(program: string, cases: readonly unknown[]): Promise<A[]> {
  return askPython<A[]>(new URL(`${program}.py`, import.meta.url), cases);
}
