/** Processes that are stopped, replaced, and continued: nothing that they had begun may change the state of the job. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

/** Only detects hangs. */
const LONG = { timeout: 900_000 };
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-replaced-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const elsewhere = async () => `--listen=127.0.0.1:${(await choosePorts('127.0.0.1', 1))[0]}`;
const stepsOf = ({ output }: TaskProcess) =>
  [...output().matchAll(/^step (\d+) /gm)].map(([, step]) => Number(step));
const lastStepOf = (task: TaskProcess): number => stepsOf(task).at(-1) ?? 0;
async function until(what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 300_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((tick) => setTimeout(tick, 50));
  }
}

it.each(['direct', 'grpc'])(
  'a chief that continues with its initializers does not reset the model (%s)',
  LONG,
  async (engine) => {
    await using tasks = await TaskProcesses.create('monitored.ts', 2, 2, {
      TASKS_ROOT: root,
      SHOAL_ENGINE: engine,
      LAST_STEP: '1000000',
    });
    const start = (job: 'ps' | 'worker', index: number, more: string[] = [], env = {}) =>
      tasks.start(job, index, more, 'monitored.ts', env);
    for (const index of [0, 1]) start('ps', index);
    const worker = start('worker', 1);
    // It stops itself when it is about to run the initializers.
    const old = start('worker', 0, [], {
      SHOAL_FAULT: 'train.initialize=stop',
      TASKS_ROOT: join(root, 'old'),
    });
    await old.waitForOutput(/up as/);
    await worker.waitForOutput(/waiting for the chief/);
    const next = start('worker', 0, [await elsewhere()]);
    await until('steps of the successor', () => lastStepOf(next) > 20 && lastStepOf(worker) > 20);
    const before = lastStepOf(worker);
    old.child.kill('SIGCONT');
    expect(await old.exit, old.output()).toBe(EXIT.superseded);
    await until('more steps', () => lastStepOf(worker) > before + 20 && lastStepOf(next) > before + 20);
    for (const task of [worker, next]) {
      const steps = stepsOf(task);
      expect(steps, task.output()).toEqual(steps.toSorted((a, b) => a - b));
    }
    expect(stepsOf(old)).toEqual([]);
  },
);

it(
  'a synchronous chief that was stopped in a step and continues does not disturb its successor',
  LONG,
  async () => {
    await using tasks = await TaskProcesses.create('deterministic-job.ts', 2, 2, {
      TASKS_ROOT: root,
      DETERMINISTIC_STEPS: '1000000',
    });
    for (const index of [0, 1]) tasks.start('ps', index);
    const stepsOf = ({ output }: TaskProcess) =>
      [...output().matchAll(/\bstep (\d+) of/g)].map(([, step]) => Number(step));
    const last = (task: TaskProcess) => stepsOf(task).at(-1) ?? 0;
    const old = tasks.start('worker', 0);
    const worker = tasks.start('worker', 1);
    await until('steps', () => last(worker) > 10);
    old.child.kill('SIGSTOP');
    const next = tasks.start('worker', 0, [await elsewhere()], undefined, { TASKS_ROOT: join(root, 'next') });
    await until('steps of the successor', () => last(next) > 10);
    const before = last(next);
    old.child.kill('SIGCONT');
    expect(await old.exit, old.output()).toBe(EXIT.superseded);
    await until('more steps', () => last(worker) > before + 10 && last(next) > before + 10);
  },
);
