/** The launcher's options for a cluster of fake tasks, from values that JSON can represent. */
import { fileURLToPath } from 'node:url';
import type { LocalClusterOptions } from '../local-cluster.js';

const SCRIPT = fileURLToPath(new URL('./stand-in.mjs', import.meta.url));

export type Given = Pick<LocalClusterOptions, 'dir' | 'env'> & Partial<LocalClusterOptions>;

export function standIns(
  given: Given & Pick<LocalClusterOptions, 'screen' | 'stop' | 'kill'>,
): LocalClusterOptions {
  return {
    name: 'stand-in',
    ps: 1,
    workers: 1,
    host: '127.0.0.1',
    entry: (taskDir) => ({ command: process.execPath, args: [SCRIPT, taskDir] }),
    maxRestarts: 3,
    wipe: false,
    // Longer than any test: a test that depends on it times out.
    graceMs: 3_600_000,
    backoff: { baseMs: 10, maxMs: 20 },
    ...given,
  };
}
