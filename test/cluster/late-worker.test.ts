/** A worker that is started after the end of its job. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-late-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

it('exits with 0 if its disk has the last step, and asks for a restart if it has nothing', {
  timeout: 900_000,
}, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 1, 2, {
    TASKS_ROOT: root,
    SYNC_STEPS: '40',
    SYNC_SAVE_SECS: '600',
  });
  const all = [tasks.start('ps', 0), tasks.start('worker', 0), tasks.start('worker', 1)];
  expect(await Promise.all(all.map(({ exit }) => exit))).toEqual([0, 0, 0]);

  const late = tasks.start('worker', 1);
  expect(await late.exit, late.output()).toBe(EXIT.done);
  expect(late.output()).toMatch(/the job has ended: its end, at step 40, is recorded on this disk/);

  await rm(join(root, 'worker-1'), { recursive: true });
  // A ps that has been started again knows the end. The chief is not there to restore anything.
  const ps = tasks.start('ps', 0);
  await ps.waitForOutput(/agent at/);
  const asking = tasks.start('worker', 1);
  expect(await asking.exit, asking.output()).toBe(EXIT.done);
  expect(asking.output()).toMatch(/the job has ended: its end, at step 40, is recorded at ps\/0/);
  expect(await ps.exit, ps.output()).toBe(EXIT.done);
  // A chief with an empty disk does what remains, and waits for no disk of a finished worker.
  await rm(join(root, 'worker-0'), { recursive: true });
  const again = tasks.start('ps', 0);
  const chief = tasks.start('worker', 0);
  expect(await chief.exit, chief.output()).toBe(EXIT.done);
  expect(chief.output()).toMatch(/restored model\.ckpt-40[\s\S]*done at step 40/);
  expect(chief.output()).not.toMatch(/looking for the newest checkpoint/);
  expect(await again.exit, again.output()).toBe(EXIT.done);

  const empty = tasks.start('worker', 1);
  expect(await empty.exit, empty.output()).toBe(EXIT.retry);
  expect(empty.output()).toMatch(/no other task is there/);
});

it('a ps ends with 130 after an interrupt of the only worker', { timeout: 600_000 }, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 1, 1, {
    TASKS_ROOT: root,
    SYNC_STEPS: '100000000',
    SYNC_SAVE_SECS: '600',
  });
  const ps = tasks.start('ps', 0);
  const worker = tasks.start('worker', 0);
  await worker.waitForOutput(/saved model\.ckpt/);
  worker.child.kill('SIGINT');
  expect(await worker.exit, worker.output()).toBe(EXIT.interrupted);
  expect(await ps.exit, ps.output()).toBe(EXIT.interrupted);
  expect(ps.output()).toMatch(/training was interrupted, \/job:worker\/task:0 stopped before the end/);
});
