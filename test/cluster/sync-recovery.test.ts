/** Synchronous training that loses a ps goes back to the last checkpoint; one that loses its chief resumes where it was. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sleep } from '../../src/async/deadline.js';
import { EXIT } from '../../src/errors/exit-codes.js';
import { runInProcess } from '../../src/job/run-local.js';
import { type TaskProcess, TaskProcesses } from './processes.js';
import job from './programs/sync-job.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-sync-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PATIENCE_MS = 240_000;

/** What the workers say after a moment: steps, with the loss. */
const stepsOf = (text: string): { step: number; loss: number }[] =>
  [...text.matchAll(/step (\d+) of .* loss ([\d.e-]+)/g)].map(([, step, loss]) => ({
    step: Number(step),
    loss: Number(loss),
  }));

for (const lost of [0, 1]) {
  it(`goes on from the last cut when ps ${lost} comes back with an empty disk`, {
    timeout: 900_000,
  }, async () => {
    // Where the model ends up: far enough for the loss to be that of the best line.
    const best = await runInProcess({ ...job, train: { lastStep: 400 } });
    await using tasks = await TaskProcesses.create('sync-job.ts', 2, 2, {
      TASKS_ROOT: root,
      SYNC_STEPS: '100000000',
      SYNC_SAVE_SECS: '1',
    });
    const ps = [0, 1].map((index) => tasks.start('ps', index));
    const workers = [0, 1].map((index) => tasks.start('worker', index)) as [TaskProcess, TaskProcess];
    const [chief, other] = workers;
    await chief.said(/saved model\.ckpt-\d\d+/, PATIENCE_MS);
    ps[lost]?.child.kill('SIGKILL');
    await ps[lost]?.exit;
    await rm(join(root, `ps-${lost}`), { recursive: true });
    tasks.start('ps', lost);
    await chief.said(/variables were lost: all go back to model\.ckpt-\d+/, PATIENCE_MS);
    const [, cut] = /all go back to model\.ckpt-(\d+)/.exec(chief.output()) ?? [];
    const marks = workers.map((worker) => worker.output().length);
    for (const worker of workers) {
      await worker.said(/whole again[\s\S]*(step \d+ of[\s\S]*){3}/, PATIENCE_MS);
    }
    // A cut rests all workers at one step: that it can be made says that they are in step again.
    await chief.said(/whole again[\s\S]*saved model\.ckpt-\d+/, PATIENCE_MS);
    for (const worker of workers) worker.child.kill('SIGINT');
    const codes = await Promise.all(workers.map(({ exit }) => exit));
    expect(codes, `${chief.output()}\n---\n${other.output()}`).toEqual([EXIT.interrupted, EXIT.interrupted]);
    for (const [i, worker] of workers.entries()) {
      const said = stepsOf(worker.output().slice(marks[i]));
      expect(said.at(-1)?.step).toBeGreaterThan(Number(cut));
      expect(worker.output()).not.toMatch(/starting again from first values|^failed:/m);
    }
    // Workers have different parts of the data, so it is their mean that is the loss of all of it.
    const losses = workers.map((worker) => stepsOf(worker.output()).at(-1)?.loss as number);
    expect((losses[0]! + losses[1]!) / 2).toBeLessThan((best.loss as number) * 1.1);
  });
}

it('resumes with a new chief, though the step of the dead one was made on one ps alone', {
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
  await chief.said(/step \d+ of/, PATIENCE_MS);
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
    // Every worker makes steps: two lines of progress, of which the first may be of steps that were under way.
    await chief.said(/(step \d+ of[\s\S]*){2}/, 90_000).catch((error: Error) => {
      throw new Error(`after kill ${kill}: ${error.message}`);
    });
    for (const [i, worker] of others.entries()) {
      const since = () => stepsOf(worker.output().slice(marks[i]));
      await expect.poll(() => since().at(-1)?.step ?? 0, { timeout: 240_000 }).toBeGreaterThan(before);
    }
    expect(stepsOf(chief.output()).at(-1)?.step).toBeGreaterThan(before);
  }
});
