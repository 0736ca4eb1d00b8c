/** What a job saves at its end, with real tasks. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ROOT } from '../setup/run-setup.js';
import { shoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 400_000 });

const JOB = join(ROOT, 'test/cluster/programs/evaluated-job.ts');

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-once-'));
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

async function saved(): Promise<readonly number[]> {
  const env = { LAST_STEP: '400', EVERY_STEPS: '400' };
  const { code, stdout, stderr } = await shoal(
    ['run', JOB, '--ps', '1', '--workers', '1', '--no-evaluator'],
    { cwd: scratch, env },
  );
  expect(code, stdout + stderr).toBe(0);
  return [...stdout.matchAll(/saved model\.ckpt-(\d+)/g)].map(([, step]) => Number(step));
}

test('a step that was just saved is not saved again at the end, nor one that was restored', async () => {
  expect((await saved()).filter((step) => step === 400)).toEqual([400]);
  expect(await saved()).toEqual([]);
});
