/** `recovery: 'partial'`: a lost ps goes back to the newest checkpoint alone, the other ps keeps its state. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TaskProcess, TaskProcesses } from './processes.js';

const TIMEOUT_MS = 240_000;
const LAST_STEP = 600;

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-partial-'));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** The values that the chief reports at the end. */
function counts(chief: TaskProcess): { a: number; b: number; step: number } {
  const line = /done at step (\d+).*$/m.exec(chief.output()) ?? [''];
  const value = (name: string) => Number(new RegExp(` ${name} = (-?[\\d.]+)`).exec(line[0])?.[1]);
  return { a: value('a'), b: value('b'), step: Number(line[1]) };
}

const RESTORED =
  /partial recovery: restored model\.ckpt-(\d+) on (\S+) only from [^;]*; (\d+) steps are (lost there|repeated)/g;

test('without a checkpoint all variables begin again, as one state', { timeout: TIMEOUT_MS }, async () => {
  const home = mkdtempSync(join(tmpdir(), 'shoal-restart-'));
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: String(LAST_STEP),
    COUNTING_TRAIN: '{}',
  });
  const ps = [tasks.start('ps', 0), tasks.start('ps', 1)];
  const chief = tasks.start('worker', 0);
  tasks.start('worker', 1);
  await chief.waitForOutput(/step \d{2,} of/, TIMEOUT_MS);
  // That of the global step is the other one.
  ps[1]!.child.kill('SIGKILL');
  await ps[1]!.exit;
  tasks.start('ps', 1);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(chief.output()).toMatch(/lost a, and there is no checkpoint: training restarts from initial values/);
  const { a, b, step } = counts(chief);
  expect(step).toBeGreaterThanOrEqual(LAST_STEP);
  for (const count of [a, b]) expect(Math.abs(count - step), chief.output()).toBeLessThanOrEqual(4);
  rmSync(home, { recursive: true, force: true });
});

test('a lost ps loses its own updates, and only those', { timeout: TIMEOUT_MS }, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: String(LAST_STEP),
    COUNTING_TRAIN: JSON.stringify({ recovery: 'partial', checkpoint: { everySteps: 50 } }),
  });
  const ps = [tasks.start('ps', 0), tasks.start('ps', 1)];
  const chief = tasks.start('worker', 0);
  tasks.start('worker', 1);
  const replace = async (index: 0 | 1) => {
    ps[index]!.child.kill('SIGKILL');
    await ps[index]!.exit;
    rmSync(join(home, `ps-${index}`), { recursive: true });
    ps[index] = tasks.start('ps', index);
  };

  await chief.waitForOutput(/saved model\.ckpt-[1-9]\d+[\s\S]*step \d+ of/, TIMEOUT_MS);
  await replace(1);
  await chief.waitForOutput(/recovered: [\s\S]*saved model\.ckpt-\d+[\s\S]*step \d+ of/, TIMEOUT_MS);
  await replace(0);
  expect(await chief.exit, chief.output()).toBe(0);

  const [of1, of0] = [...chief.output().matchAll(RESTORED)];
  expect([of1?.[2], of1?.[4]], chief.output()).toEqual(['/job:ps/task:1', 'lost there']);
  expect([of0?.[2], of0?.[4]], chief.output()).toEqual(['/job:ps/task:0', 'repeated']);
  const { a, b, step } = counts(chief);
  expect(step).toBeGreaterThanOrEqual(LAST_STEP);
  // `b` is where the global step is. Of a step that the loss interrupts one ps may apply its part: one for each worker.
  const interrupted = 2 * 2;
  expect(Math.abs(b - step)).toBeLessThanOrEqual(interrupted);
  // `a` lost the steps of the first recovery, and kept those that were repeated after the second.
  const [lost, repeated] = [Number(of1?.[3]), Number(of0?.[3])];
  expect(Math.abs(a - (step - lost + repeated))).toBeLessThanOrEqual(2 * interrupted);
  expect(lost + repeated).toBeGreaterThan(0);

  const events = [...chief.output().matchAll(/recovered: (\{.*\})/g)].map(([, text]) => JSON.parse(text!));
  expect(events[0]).toMatchObject({
    mode: 'partial',
    lost: ['/job:ps/task:1'],
    restored: { checkpoint: `model.ckpt-${of1?.[1]}`, tasks: ['/job:ps/task:1'], isRepeated: false },
  });
  // The step of the first loss was not undone: the global step is on the other ps.
  expect(events[0].step).toBeGreaterThanOrEqual(Number(of1?.[1]) + lost);
});
