/** Synchronous training that loses a ps goes back to the last checkpoint; one that loses its chief resumes where it was. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runInProcess } from '../../src/app/job/running/run-local.js';
import { sleep } from '../../src/base/async/deadline.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { type TaskProcess, TaskProcesses } from './processes.js';
import job from './programs/sync-job.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-sync-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const TIMEOUT_MS = 240_000;

/** The steps and losses that a worker printed. */
const stepsOf = (text: string): { step: number; loss: number }[] =>
  [...text.matchAll(/step (\d+) of .* loss ([\d.e-]+)/g)].map(([, step, loss]) => ({
    step: Number(step),
    loss: Number(loss),
  }));

for (const lost of [0, 1]) {
  it(`resumes from the last checkpoint when ps ${lost} comes back with an empty disk`, {
    timeout: 900_000,
  }, async () => {
    // Enough steps to converge to the lowest loss.
    const best = await runInProcess({ ...job, train: { lastStep: 400 } });
    await using tasks = await TaskProcesses.create('sync-job.ts', 2, 2, {
      TASKS_ROOT: root,
      SYNC_STEPS: '100000000',
      SYNC_SAVE_SECS: '1',
    });
    const ps = [0, 1].map((index) => tasks.start('ps', index));
    const workers = [0, 1].map((index) => tasks.start('worker', index)) as [TaskProcess, TaskProcess];
    const [chief, other] = workers;
    await chief.waitForOutput(/saved model\.ckpt-\d\d+/, TIMEOUT_MS);
    ps[lost]?.child.kill('SIGKILL');
    await ps[lost]?.exit;
    await rm(join(root, `ps-${lost}`), { recursive: true });
    tasks.start('ps', lost);
    await chief.waitForOutput(/variables? (was|were) lost: restored model\.ckpt-\d+/, TIMEOUT_MS);
    const [, restored] = /lost: restored model\.ckpt-(\d+)/.exec(chief.output()) ?? [];
    const marks = workers.map((worker) => worker.output().length);
    for (const worker of workers) {
      await worker.waitForOutput(/complete again[\s\S]*(step \d+ of[\s\S]*){3}/, TIMEOUT_MS);
    }
    // A save pauses all workers at the same step: its success shows that they are in step again.
    await chief.waitForOutput(/complete again[\s\S]*saved model\.ckpt-\d+/, TIMEOUT_MS);
    for (const worker of workers) worker.child.kill('SIGINT');
    const codes = await Promise.all(workers.map(({ exit }) => exit));
    expect(codes, `${chief.output()}\n---\n${other.output()}`).toEqual([EXIT.interrupted, EXIT.interrupted]);
    for (const [i, worker] of workers.entries()) {
      const printed = stepsOf(worker.output().slice(marks[i]));
      expect(printed.at(-1)?.step).toBeGreaterThan(Number(restored));
      expect(worker.output()).not.toMatch(/restarts from initial values|^failed:/m);
    }
    // Each worker has a different part of the data: the mean of their losses is the total loss.
    const losses = workers.map((worker) => stepsOf(worker.output()).at(-1)?.loss as number);
    expect((losses[0]! + losses[1]!) / 2).toBeLessThan((best.loss as number) * 1.1);
  });
}

it('resumes with a new chief although the step of the dead one was applied on only one ps', {
  timeout: 900_000,
}, async () => {
  const KILLS = 3;
  await using tasks = await TaskProcesses.create('sync-job.ts', 2, 3, {
    TASKS_ROOT: root,
    SYNC_STEPS: '100000000',
  });
  tasks.start('ps', 0);
  const frozen = tasks.start('ps', 1);
  const others = [1, 2].map((index) => tasks.start('worker', index));
  let chief = tasks.start('worker', 0);
  await chief.waitForOutput(/step \d+ of/, TIMEOUT_MS);
  for (let kill = 1; kill <= KILLS; kill++) {
    const before = stepsOf(chief.output()).at(-1)?.step as number;
    // The chief's step takes the gradients of ps 0, and waits for those of ps 1.
    frozen.child.kill('SIGSTOP');
    await sleep(1000);
    chief.child.kill('SIGKILL');
    await chief.exit;
    frozen.child.kill('SIGCONT');
    const marks = others.map((worker) => worker.output().length);
    chief = tasks.start('worker', 0);
    // Two progress lines show new steps: the first may report steps that were in flight.
    await chief.waitForOutput(/(step \d+ of[\s\S]*){2}/, 90_000).catch((error: Error) => {
      throw new Error(`after kill ${kill}: ${error.message}`);
    });
    for (const [i, worker] of others.entries()) {
      const since = () => stepsOf(worker.output().slice(marks[i]));
      await expect.poll(() => since().at(-1)?.step ?? 0, { timeout: 240_000 }).toBeGreaterThan(before);
    }
    expect(stepsOf(chief.output()).at(-1)?.step).toBeGreaterThan(before);
  }
});
