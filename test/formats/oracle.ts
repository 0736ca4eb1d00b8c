/** Runs a Python program of this directory with TensorFlow and returns the JSON of its last line of output. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askPython } from '../python.js';

export function oracle<T>(program: string, ...args: string[]): Promise<T> {
  return askPython<T>(new URL(program, import.meta.url), null, args);
}

export async function temporaryDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'shoal-formats-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}
