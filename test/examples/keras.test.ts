/** The Keras-like examples learn: in one process, and on 2 ps and 2 workers with an evaluator. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shoal } from '../cli/shoal-process.js';
import { KERAS_PROGRAMS } from '../docs/executed.js';
import { ROOT } from '../setup/run-setup.js';

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-keras-examples-'));
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const CLUSTER = ['--ps', '2', '--workers', '2'];
const runs = KERAS_PROGRAMS.flatMap((program) => [
  [program, 'in one process', []] as const,
  [program, 'on a cluster', CLUSTER] as const,
]);

test.each(runs)(
  '%s learns %s',
  async (program, where, options) => {
    const directory = join(scratch, program, where === 'on a cluster' ? 'cluster' : 'alone');
    const args = ['run', join(ROOT, program), '--dir', directory, ...options];
    const { code, stdout, stderr } = await shoal(args, { cwd: scratch });
    expect(code, stdout + stderr).toBe(0);
    const accuracies = [...stdout.matchAll(/accuracy = ([\d.]+)/g)].map(([, value]) => Number(value));
    expect(accuracies.at(-1)).toBeGreaterThan(0.85);
    const exports = join(directory, 'worker-0/export');
    expect(readdirSync(exports).some((version) => existsSync(join(exports, version, 'saved_model.pb')))).toBe(
      true,
    );
  },
  300_000,
);
