/**
 * Several releases in one cluster. Neighbouring ones work together: the tasks of a job that trains are replaced one by
 * one by those of the next release. A release without a common version is refused with both tasks and both versions,
 * once, and the job trains on.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TaskProcess, TaskProcesses } from './processes.js';
import { makeRelease } from './release.js';

const TIMEOUT_MS = 300_000;

let home: string;
let previous: string;
let next: string;
let afterNext: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-releases-'));
  previous = makeRelease(join(home, 'previous'), { release: '0.0.1', versions: { stages: [1, 2] } });
  next = makeRelease(join(home, 'next'), {
    release: '90.0.0',
    versions: { agent: [1, 2], stages: [1, 4], checkpoint: [1, 3] },
  });
  afterNext = makeRelease(join(home, 'after-next'), {
    release: '91.0.0',
    versions: { agent: [1, 2], stages: [4, 5] },
  });
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Waits until the output of a task matches from here on. */
async function waitForMore(task: TaskProcess, pattern: RegExp): Promise<void> {
  const length = task.output().length;
  await expect.poll(() => task.output().slice(length), { timeout: TIMEOUT_MS }).toMatch(pattern);
}

const STEP = /step \d+ of/;

test('a job trains while each task, one of them of the previous release, is replaced by one of the next', {
  timeout: 900_000,
}, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: '1000000',
    COUNTING_TRAIN: JSON.stringify({ checkpoint: { everySteps: 50 } }),
  });
  const ps = [tasks.start('ps', 0, [], undefined, {}, previous), tasks.start('ps', 1)];
  let chief = tasks.start('worker', 0);
  const worker = tasks.start('worker', 1);
  const end = async (task: TaskProcess) => {
    task.child.kill('SIGKILL');
    await task.exit;
  };
  await chief.waitForOutput(/saved model\.ckpt-[1-9]\d+[\s\S]*step \d+ of/, TIMEOUT_MS);

  await end(worker);
  const refused = tasks.start('worker', 1, [], undefined, {}, afterNext);
  expect(await refused.exit).toBe(1);
  expect(refused.output()).toMatch(
    /job:worker\/task:1 \(Shoal 91\.0\.0\) speaks versions 4 to 5 of the stage protocol, \/job:\w+\/task:\d \(Shoal [\d.]+\) speaks versions 1 to [23]: they cannot work together/,
  );
  expect(chief.output()).toMatch(/a request is refused: .*task:1 \(Shoal 91\.0\.0\)/);
  await waitForMore(chief, STEP);

  tasks.start('worker', 1, [], undefined, {}, next);
  for (const index of [1, 0] as const) {
    await end(ps[index]!);
    const recovered = waitForMore(chief, /recovered: [\s\S]*step \d+ of/);
    ps[index] = tasks.start('ps', index, [], undefined, {}, next);
    await recovered;
  }
  await end(chief);
  chief = tasks.start('worker', 0, [], undefined, {}, next);
  await chief.waitForOutput(/saved model\.ckpt-[1-9]\d+/, TIMEOUT_MS);
  await waitForMore(chief, STEP);
});
