/** A worker that is started after the end of its job. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EXIT } from '../../src/errors/exit-codes.js';
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
  expect(late.output()).toMatch(/the job has ended: its last step, 40, is saved on this disk/);

  await rm(join(root, 'worker-1'), { recursive: true });
  const empty = tasks.start('worker', 1);
  expect(await empty.exit, empty.output()).toBe(EXIT.retry);
  expect(empty.output()).toMatch(/no other task is there/);
});
