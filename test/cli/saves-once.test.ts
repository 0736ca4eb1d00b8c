/** The checkpoints that a job saves at its end, with real tasks. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ROOT } from '../setup/run-setup.js';
import { shoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 900_000 });

const JOB = join(ROOT, 'test/cluster/programs/evaluated-job.ts');

let scratch: string;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-once-'));
});
afterEach(() => rmSync(scratch, { recursive: true, force: true }));

async function saved(lastStep: number, { ps = 1, every = lastStep } = {}): Promise<readonly number[]> {
  const env = { LAST_STEP: String(lastStep), EVERY_STEPS: String(every) };
  const { code, stdout, stderr } = await shoal(
    ['run', JOB, '--ps', String(ps), '--workers', '1', '--no-evaluator'],
    { cwd: scratch, env },
  );
  expect(code, stdout + stderr).toBe(0);
  return [...stdout.matchAll(/saved model\.ckpt-(\d+)/g)].map(([, step]) => Number(step));
}

test('a step that was just saved or restored is not saved again at the end', async () => {
  expect((await saved(400)).filter((step) => step === 400)).toEqual([400]);
  expect(await saved(400)).toEqual([]);
});

test('a ps that comes back removes checkpoints that were deleted meanwhile', async () => {
  /** The steps whose files a ps holds. */
  const held = (index: number) => {
    const blobs = join(scratch, `.shoal/evaluated/ps-${index}/blobs`);
    const files = readdirSync(blobs, { recursive: true }) as string[];
    return new Set(files.flatMap((file) => /model\.ckpt-(\d+)@/.exec(file)?.[1] ?? []).map(Number));
  };
  await saved(100, { ps: 2 });
  expect(held(1)).toContain(100);
  const kept = await saved(700, { every: 200 });
  expect(held(0)).not.toContain(100);
  expect(held(1)).toContain(100);
  const last = await saved(710, { ps: 2 });
  expect(last).toEqual([710]);
  for (const step of held(1)) expect([...kept, ...last]).toContain(step);
});
