/** The hooks and callbacks of a job on a cluster that loses a ps. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { waitUntil } from '../setup/run-setup.js';
import { type ShoalProcess, startShoal } from './shoal-process.js';

vi.setConfig({ testTimeout: 300_000 });

let scratch: string;
let run: ShoalProcess | undefined;
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-callbacks-'));
});
afterEach(async () => {
  run?.child.kill('SIGTERM');
  await run?.ended;
  rmSync(scratch, { recursive: true, force: true });
});

/** The chief's watched value improves until the cluster has recovered from a loss. */
const JOB = `
  import { defineJob, tf } from 'shoal';
  import { EarlyStoppingHook } from 'shoal/train';

  let isRecovered = false;
  let value = 0;
  export default defineJob({
    name: 'callbacks',
    model() {
      const w = tf.variable('w', { shape: [], initializer: 1 });
      return { loss: w.square(), optimizer: tf.train.sgd(1e-6) };
    },
    train: { lastStep: 100_000_000, checkpoint: { everySecs: 1 } },
    hooks: ({ isChief }) => [
      new EarlyStoppingHook({
        metric: () => (isRecovered ? value : --value),
        maxStepsWithoutImprovement: 10,
        isChief,
      }),
    ],
    callbacks: {
      onSave: ({ step }) => console.log('callback: saved', step),
      onRecover: () => {
        isRecovered = true;
        console.log('callback: recovered');
      },
      onEnd: ({ interrupted }) => console.log('callback: ended', interrupted),
    },
  });`;

test('callbacks see saves, a recovery and the end, and a hook ends training on all workers', async () => {
  writeFileSync(join(scratch, 'job.ts'), JOB);
  const started = startShoal(['run', 'job.ts', '--ps', '1', '--workers', '2'], { cwd: scratch });
  run = started;
  const lines = (pattern: RegExp) => started.output.stdout.match(pattern) ?? [];
  await waitUntil('two saves', () => lines(/worker 0 │ callback: saved \d+/g).length >= 2);
  process.kill(Number(/ps 0 is process (\d+)/.exec(started.output.stdout)?.[1]), 'SIGKILL');
  expect(await started.ended, started.output.stderr).toBe(0);
  for (const worker of ['worker 0', 'worker 1']) {
    expect(lines(new RegExp(`${worker} │ callback: recovered`, 'g'))).not.toHaveLength(0);
    expect(lines(new RegExp(`${worker} │ callback: ended false`, 'g'))).toHaveLength(1);
  }
});

/** The chief fails when the other worker is done, and has run long enough to be started again. */
const FAILING_JOB = `
  import { defineJob, tf } from 'shoal';
  let chief = false;
  export default defineJob({
    name: 'failing',
    model() {
      const w = tf.variable('w', { shape: [], initializer: 1 });
      return { loss: w.square(), optimizer: tf.train.sgd(1e-6) };
    },
    train: { lastStep: 100_000_000, checkpoint: { everySecs: 600 } },
    hooks: ({ isChief }) => {
      chief = isChief;
      return [{ afterRun: (context) => void (process.uptime() > 33 && context.requestStop()) }];
    },
    callbacks: {
      onEnd: () => {
        if (chief) throw new Error('upload failed');
      },
    },
  });`;

test('a chief that fails after the end of training is started again, does not wait for finished workers, and ends the command', async () => {
  writeFileSync(join(scratch, 'job.ts'), FAILING_JOB);
  run = startShoal(['run', 'job.ts', '--ps', '1', '--workers', '2'], { cwd: scratch });
  expect(await run.ended, run.output.stdout).toBe(1);
  const { stdout, stderr } = run.output;
  expect(stdout.match(/worker 0 exited with 1; restart 1 of at most 5/g)).toHaveLength(1);
  expect(stdout).not.toMatch(/worker 1 .*; restart|looking for the newest checkpoint/);
  expect(stdout).toMatch(/training has ended at step \d+, before the last step/);
  expect(stderr).toMatch(/worker 0 exited with 1/);
});
