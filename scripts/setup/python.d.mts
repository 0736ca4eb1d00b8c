/** Types of python.mjs, for the TypeScript that imports it. */
import type { RunOptions } from './processes.mjs';

export interface Python {
  readonly command: string;
  readonly executable: string;
  readonly version: string;
}

export function findPython(options?: RunOptions): Promise<Python>;
export function findPip(python: Python, options?: RunOptions): Promise<string>;
export function findPythonTensorFlow(
  python: Python,
  options?: RunOptions,
): Promise<{ readonly dir: string; readonly version: string } | undefined>;
