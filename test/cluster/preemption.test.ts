/** SIGTERM to each kind of task: it saves or returns what it holds, leaves, and its successor continues. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { writeIdRecords } from '../../src/training/input/testing/id-records.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const TIMEOUT_MS = 280_000;

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'shoal-preempted-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

async function preempt({ child, exit, output }: TaskProcess): Promise<void> {
  child.kill('SIGTERM');
  expect(await exit, output()).toBe(EXIT.retry);
}

/** The values that the chief reports at the end, and the step of its last checkpoint. */
function counts({ output }: TaskProcess): { a: number; b: number; step: number } {
  const line = /done at step .*$/m.exec(output())?.[0] ?? '';
  const value = (name: string) => Number(new RegExp(` ${name} = (-?[\\d.]+)`).exec(line)?.[1]);
  const [, step] = [...output().matchAll(/saved model\.ckpt-(\d+)/g)].at(-1) ?? [];
  return { a: value('a'), b: value('b'), step: Number(step) };
}

test('a ps has the chief save first: its successor on an empty disk loses no step', {
  timeout: TIMEOUT_MS,
}, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: '400',
    COUNTING_TRAIN: JSON.stringify({ checkpoint: { everySecs: 3600 } }),
  });
  tasks.start('ps', 0);
  const ps = tasks.start('ps', 1);
  const chief = tasks.start('worker', 0);
  const worker = tasks.start('worker', 1);
  await Promise.all([chief, worker].map((task) => task.waitForOutput(/step \d+ of/, TIMEOUT_MS)));
  await preempt(ps);
  const [, saved] = /step (\d+) is saved: leaving/.exec(ps.output()) ?? [];
  expect(saved, ps.output()).toBeDefined();
  rmSync(join(home, 'ps-1'), { recursive: true });
  tasks.start('ps', 1);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(await worker.exit, worker.output()).toBe(0);
  expect(chief.output()).toMatch(
    new RegExp(`exact recovery: restored model.ckpt-${saved} from .*; 0 steps are repeated`),
  );
  // No step was applied in part, made twice, or lost.
  const { a, b, step } = counts(chief);
  expect([a, b], chief.output()).toEqual([step, step]);
});

test('the others continue without a preempted worker, and wait for a preempted chief', {
  timeout: TIMEOUT_MS,
}, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 1, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: '500',
    COUNTING_TRAIN: JSON.stringify({ checkpoint: { everySecs: 3600 } }),
  });
  const ps = tasks.start('ps', 0);
  const first = tasks.start('worker', 0);
  const worker = tasks.start('worker', 1);
  await Promise.all([first, worker].map((task) => task.waitForOutput(/step \d+ of/, TIMEOUT_MS)));
  await preempt(first);
  const [, saved] = /saved model\.ckpt-([1-9]\d*)[\s\S]*stopped at step/.exec(first.output()) ?? [];
  expect(saved, first.output()).toBeDefined();
  await worker.waitForOutput(/the chief, \S+, was preempted[\s\S]*step \d+ of/, TIMEOUT_MS);
  await preempt(worker);
  // Without workers the ps keeps the model for their successors.
  await sleep(1500);
  expect(ps.child.exitCode, ps.output()).toBeNull();
  const chief = tasks.start('worker', 0);
  const successor = tasks.start('worker', 1);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(await successor.exit, successor.output()).toBe(0);
  expect(await ps.exit, ps.output()).toBe(0);
  expect(chief.output()).not.toMatch(/restored model/);
  const { a, b, step } = counts(chief);
  expect([a, b], chief.output()).toEqual([step, step]);
});

test('a cluster whose tasks are all preempted at once resumes from the last step', {
  timeout: TIMEOUT_MS,
}, async () => {
  await using tasks = await TaskProcesses.create('counting-job.ts', 2, 2, {
    TASKS_ROOT: home,
    COUNTING_STEPS: '100000',
    COUNTING_TRAIN: JSON.stringify({ checkpoint: { everySecs: 3600 } }),
  });
  const start = () => {
    const ps = [0, 1].map((index) => tasks.start('ps', index));
    return [...ps, ...[0, 1].map((index) => tasks.start('worker', index))];
  };
  const first = start();
  await Promise.all(first.slice(2).map((task) => task.waitForOutput(/step \d+ of/, TIMEOUT_MS)));
  const begun = performance.now();
  await Promise.all(first.map(preempt));
  // Nobody waited until the end of the grace period.
  expect(performance.now() - begun).toBeLessThan(25_000);
  const steps = first.map((task) => Number(/stopped at step (\d+)/.exec(task.output())?.[1] ?? 0));
  const [, , chief] = start();
  await chief!.waitForOutput(/restored model\.ckpt-\d+/, TIMEOUT_MS);
  const restored = Number(/restored model\.ckpt-(\d+)/.exec(chief!.output())?.[1]);
  expect(restored).toBeGreaterThanOrEqual(Math.max(...steps));
});

test('leased records are returned, and used once', { timeout: TIMEOUT_MS }, async () => {
  const [files, perFile, epochs] = [3, 100, 2];
  const records = files * perFile;
  await writeIdRecords(home, 'records', { files, perFile });
  const pace = (ms: number) => writeFileSync(join(home, 'pace'), String(1000 * ms));
  pace(500);
  await using tasks = await TaskProcesses.create('count-job.ts', 2, 2, {
    COUNT_PACE: join(home, 'pace'),
    TASKS_ROOT: home,
    COUNT_FILES: join(home, 'records-*'),
    COUNT_RECORDS: String(records),
    COUNT_EPOCHS: String(epochs),
    COUNT_SAVE_SECS: '3600',
  });
  tasks.start('ps', 0);
  tasks.start('ps', 1);
  const first = tasks.start('worker', 0);
  const worker = tasks.start('worker', 1);
  await Promise.all([first, worker].map((task) => task.waitForOutput(/step \d+ of/, TIMEOUT_MS)));
  await preempt(worker);
  const successor = tasks.start('worker', 1);
  await successor.waitForOutput(/step \d+ of/, TIMEOUT_MS);
  // The step in flight takes longer than it may after a stop: it is cut off.
  pace(9000);
  await sleep(1500);
  await preempt(first);
  expect(first.output()).toMatch(/saved model\.ckpt-[1-9]\d*[\s\S]*stopped at step/);
  // Nothing went back because of the worker that left.
  expect(first.output()).not.toMatch(/partially applied|restoring/);
  pace(0);
  const chief = tasks.start('worker', 0);
  expect(await chief.exit, chief.output()).toBe(0);
  expect(await successor.exit, successor.output()).toBe(0);
  const once = `[${[0, 1, 2, 3, 4].map((times) => (times === epochs ? records : 0))}]`;
  const done = /done at step.*$/m.exec(chief.output())?.[0] ?? '';
  expect(done.replaceAll(', ', ',')).toContain(`a = ${once}`);
  expect(done.replaceAll(', ', ',')).toContain(`b = ${once}`);
});
