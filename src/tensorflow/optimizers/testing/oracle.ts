/** Runs all cases, by name, in one Python TensorFlow process. */
import { askPython } from '../../../../test/python.js';

/** Python's import of TensorFlow alone takes a minute on a busy machine. */
export const ORACLE_MS = 300_000;

export function askTensorFlow<T>(cases: Readonly<Record<string, object>>): Promise<Record<string, T>> {
  return askPython(new URL('./oracle.py', import.meta.url), cases);
}
