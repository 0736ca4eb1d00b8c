/** TensorFlow 1 programs on a cluster of real processes: how they name their server, and how they end. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { latestCheckpoint } from '../../src/training/train/checkpoints/latest-checkpoint.js';
import { askPython } from '../python.js';
import { TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-classic-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PROGRAM = 'classic-end.ts';
const READ = new URL('../../src/training/train/testing/saver.py', import.meta.url);
/** Only detects hangs: on a busy machine most of it is the start of the processes. */
const LONG = { timeout: 900_000 };
const cluster = (workers: number, env: NodeJS.ProcessEnv) =>
  TaskProcesses.create(PROGRAM, 1, workers, { TASKS_ROOT: root, ...env });
const start = (tasks: TaskProcesses, workers: number) => [
  tasks.start('ps', 0, [], PROGRAM),
  ...Array.from({ length: workers }, (_, index) => tasks.start('worker', index, [], PROGRAM)),
];

describe('a program that never closes its server', () => {
  it.each(['monitored', 'supervisor'])('exits by itself on every task: %s', LONG, async (mode) => {
    await using tasks = await cluster(2, { MODE: mode });
    const all = start(tasks, 2);
    const codes = await Promise.all(all.map(({ exit }) => exit));
    const printed = all.map(({ output }) => output()).join('\n---\n');
    expect(codes, printed).toEqual([0, 0, 0]);
    // Every task left the cluster, and the chief received the reports of the others.
    expect(printed).not.toMatch(/is lost|did not report|has not finished/);
    const newest = await latestCheckpoint(join(root, 'worker-0', 'train_logs'));
    const [, step] = /-(\d+)$/.exec(newest ?? '') ?? [];
    expect(Number(step)).toBeGreaterThanOrEqual(30);
    // The shard was on the ps and on the other worker; the files are also those of TensorFlow.
    expect(printed).toMatch(/model\.ckpt-\d+ is complete in \S+ \(1 file, .* copied\)/);
    const values = await askPython<Record<string, unknown>>(READ, { read: newest });
    expect(values).toMatchObject({ w: [expect.any(Number)], global_step: Number(step) });
  });

  it('runs plain sessions on the cluster with only the target', LONG, async () => {
    await using tasks = await cluster(1, { MODE: 'session' });
    const all = start(tasks, 1);
    const codes = await Promise.all(all.map(({ exit }) => exit));
    expect(codes, all.map(({ output }) => output()).join('\n---\n')).toEqual([0, 0]);
    expect(all[1]?.output()).toMatch(/^step 30\nagain 30$/m);
  });
});

it('a ps does not take programs that fail before their session for the end of training', LONG, async () => {
  await using tasks = await cluster(2, { MODE: 'early' });
  const all = start(tasks, 2);
  const codes = await Promise.all(all.map(({ exit }) => exit));
  const printed = all.map(({ output }) => output()).join('\n---\n');
  expect(codes, printed).toEqual([75, 1, 1]);
  expect(all[0]?.output()).toMatch(/task:0, .*task:1 failed before the end/);
});

describe('a ps whose worker died without a leave message', () => {
  const LOST = { SHOAL_LOST_WORKER_MS: '6000' };

  it('exits with 0 when another worker has finished', LONG, async () => {
    await using tasks = await cluster(2, { LAST_STEP: '3000', ...LOST });
    const [ps, chief, other] = start(tasks, 2);
    await other?.waitForOutput(/^step \d+/m, 200_000);
    other?.child.kill('SIGKILL');
    expect(await chief?.exit, chief?.output()).toBe(0);
    expect(await ps?.exit, ps?.output()).toBe(0);
    expect(ps?.output()).toMatch(/waits for \/job:worker\/task:1 to restart: .* exits in \d+ s/);
  });

  it('exits with 75 when no worker is left', LONG, async () => {
    await using tasks = await cluster(1, { LAST_STEP: '1000000000', ...LOST });
    const [ps, worker] = start(tasks, 1);
    await worker?.waitForOutput(/^step \d+/m, 200_000);
    worker?.child.kill('SIGKILL');
    expect(await ps?.exit, ps?.output()).toBe(75);
    expect(ps?.output()).toMatch(/SHOAL_WORKERS_LOST/);
  });

  it('exits with 75 in a job too, and does not block its evaluator', LONG, async () => {
    await using tasks = await TaskProcesses.create('evaluated-job.ts', 1, 1, {
      TASKS_ROOT: root,
      LAST_STEP: '1000000000',
      ...LOST,
    });
    const ps = tasks.start('ps', 0);
    const worker = tasks.start('worker', 0);
    const evaluator = tasks.start('evaluator', 0);
    await evaluator.waitForOutput(/agent at/, 200_000);
    await worker.waitForOutput(/^saved model\.ckpt-\d\d+/m, 200_000);
    worker.child.kill('SIGKILL');
    expect(await evaluator.exit, evaluator.output()).toBe(0);
    expect(await ps.exit, ps.output()).toBe(75);
    expect(ps.output()).toMatch(/exits in \d+ s/);
  });
});
