/** Monitored sessions on a cluster of real processes, each with its own disk. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { latestCheckpoint } from '../../src/training/train/checkpoints/latest-checkpoint.js';
import { askPython } from '../python.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-monitored-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PROGRAM = 'monitored.ts';
const TENSORFLOW_RUN = new URL('../../src/training/train/testing/tensorflow-run.py', import.meta.url);
/** Only detects hangs: on a busy machine most of it is the start of the processes. */
const LONG = { timeout: 600_000 };
const TIMEOUT_MS = 240_000;
const create = (ps: number, workers: number, env: NodeJS.ProcessEnv) =>
  TaskProcesses.create(PROGRAM, ps, workers, { TASKS_ROOT: root, ...env });
const start = (tasks: TaskProcesses, job: 'ps' | 'worker', index: number) =>
  tasks.start(job, index, [], PROGRAM);

const stepsPrinted = (task: TaskProcess): number[] =>
  [...task.output().matchAll(/^step (\d+) /gm)].map(([, step]) => Number(step));
const newestStep = async () => {
  const path = await latestCheckpoint(join(root, 'worker-0', 'train_logs'));
  return Number(/-(\d+)$/.exec(path ?? '')?.[1]);
};

describe.each(['grpc', 'direct'])('a monitored session on two ps and two workers, engine %s', (engine) => {
  const cluster = (lastStep: number, env: NodeJS.ProcessEnv = {}) =>
    create(2, 2, { LAST_STEP: String(lastStep), SHOAL_ENGINE: engine, ...env });

  it('saves, stops at the last step, and does not train further when restarted', LONG, async () => {
    for (const round of [0, 1]) {
      await using tasks = await cluster(200);
      for (const index of [0, 1]) start(tasks, 'ps', index);
      const workers = [0, 1].map((index) => start(tasks, 'worker', index));
      const codes = await Promise.all(workers.map(({ exit }) => exit));
      expect(codes, workers.map(({ output }) => output()).join('\n---\n')).toEqual([0, 0]);
      expect(await newestStep()).toBeGreaterThanOrEqual(200);
      expect(await newestStep()).toBeLessThan(205);
      if (round === 0) expect(workers[0]?.output()).toMatch(/saved train_logs\/model\.ckpt-\d\b/);
      else expect(workers.flatMap(stepsPrinted)).toEqual([]);
    }
    expect(
      (await readdir(join(root, 'worker-0', 'train_logs'))).some((name) => name.includes('tfevents')),
    ).toBe(true);
  });

  it('continues from the checkpoint of Python TensorFlow in the chief’s directory', LONG, async () => {
    const directory = join(root, 'worker-0', 'train_logs');
    await mkdir(directory, { recursive: true });
    const request = { do: 'train', directory, steps: 10, name: 'W', adagrad: true };
    await askPython(TENSORFLOW_RUN, request);
    const own = async () => (await readdir(directory)).filter((name) => /ckpt-(5|10)\./.test(name)).sort();
    const before = await own();
    expect(before).toHaveLength(6);
    await using tasks = await create(1, 1, { LAST_STEP: '300', SHOAL_ENGINE: engine });
    start(tasks, 'ps', 0);
    const chief = start(tasks, 'worker', 0);
    expect(await chief.exit, chief.output()).toBe(0);
    expect(chief.output()).toMatch(/restoring \S*model\.ckpt-10\n/);
    const { latest, all } = await askPython<{ latest: string; all: string[] }>(TENSORFLOW_RUN, {
      do: 'look',
      directory,
      values: false,
    });
    expect(latest).toMatch(/model\.ckpt-3\d\d$/);
    expect(all.slice(0, 2)).toEqual(['model.ckpt-5', 'model.ckpt-10']);
    expect(await own()).toEqual(before);
  });

  it.each([
    ['asynchronous', {}],
    ['synchronous', { SYNC: '1' }],
  ])(
    'resumes from the last checkpoint when a ps is lost and comes back with an empty disk: %s',
    LONG,
    async (_, env) => {
      await using tasks = await cluster(1_000_000, env);
      const ps = [0, 1].map((index) => start(tasks, 'ps', index));
      const workers = [0, 1].map((index) => start(tasks, 'worker', index));
      const [chief, other] = workers as [TaskProcess, TaskProcess];
      await chief.waitForOutput(/saved train_logs\/model\.ckpt-\d\d+\b/, TIMEOUT_MS);
      ps[1]?.child.kill('SIGKILL');
      await ps[1]?.exit;
      const mark = [chief.output().length, other.output().length] as const;
      await rm(join(root, 'ps-1'), { recursive: true });
      start(tasks, 'ps', 1);
      await chief.waitForOutput(/restoring .*model\.ckpt-\d+: \d variables? (was|were) lost/, TIMEOUT_MS);
      for (const [i, worker] of [chief, other].entries()) {
        await worker.waitForOutput(/the cluster is complete again[\s\S]*step \d+ /, TIMEOUT_MS);
        expect(worker.output().slice(mark[i])).not.toMatch(/restarts from initial values/);
      }
      const restored = Number(/restoring .*model\.ckpt-(\d+):/.exec(chief.output())?.[1]);
      expect(restored).toBeGreaterThan(0);
      expect(chief.output()).toMatch(
        new RegExp(`event: lost /job:ps/task:1, restored step ${restored}, continues at \\d+`),
      );
      expect(other.output()).toMatch(
        /event: lost \/job:ps\/task:1, restored step undefined, continues at \d+/,
      );
      expect(chief.output()).toMatch(
        /exact recovery: restored model\.ckpt-\d+ from .*; \d+ steps are repeated/,
      );
      const after = [
        ...chief.output().matchAll(/complete again[^\n]*\n(?:(?!step)[^\n]*\n)*step (\d+) /g),
      ].at(-1);
      expect(Number(after?.[1])).toBeGreaterThanOrEqual(restored);
      chief.child.kill('SIGINT');
      other.child.kill('SIGINT');
      expect(await Promise.all([chief.exit, other.exit])).toEqual([0, 0]);
      expect(await newestStep()).toBeGreaterThan(restored);
    },
  );

  it('lets a chief with an empty disk rejoin, and restore after all tasks were lost', LONG, async () => {
    const disk = join(root, 'worker-0');
    const lastSaved = (task: TaskProcess) =>
      Number([...task.output().matchAll(/^saved train_logs\/model\.ckpt-(\d+)/gm)].at(-1)?.[1]);
    let saved: number;
    {
      await using tasks = await cluster(1_000_000);
      for (const index of [0, 1]) start(tasks, 'ps', index);
      const [first, other] = [0, 1].map((index) => start(tasks, 'worker', index)) as [
        TaskProcess,
        TaskProcess,
      ];
      await first.waitForOutput(/saved train_logs\/model\.ckpt-\d\d+\b/, TIMEOUT_MS);
      await other.waitForOutput(/^step \d+ /m, TIMEOUT_MS);
      first.child.kill('SIGKILL');
      await first.exit;
      await rm(disk, { recursive: true });
      const before = stepsPrinted(other).at(-1) as number;
      const second = start(tasks, 'worker', 0);
      await second.waitForOutput(/^step \d+ /m, TIMEOUT_MS);
      await second.waitForOutput(/^saved train_logs\/model\.ckpt-\d+/m, TIMEOUT_MS);
      saved = lastSaved(second);
      // It joined the running training: nothing was restored or restarted, and no step was lost.
      expect(stepsPrinted(second)[0]).toBeGreaterThanOrEqual(before);
      expect(saved).toBeGreaterThan(before);
      expect(second.output()).not.toMatch(/restoring|initial values/);
      expect(stepsPrinted(other)).toEqual([...stepsPrinted(other)].sort((a, b) => a - b));
      expect(other.child.exitCode).toBeNull();
    }
    // All tasks were killed at once and the chief's disk is empty again: the checkpoint is on the other disks.
    await rm(disk, { recursive: true });
    await using tasks = await cluster(1_000_000);
    for (const index of [0, 1]) start(tasks, 'ps', index);
    const chief = start(tasks, 'worker', 0);
    start(tasks, 'worker', 1);
    await chief.waitForOutput(/^step \d+ /m, TIMEOUT_MS);
    const [, restored] = /restoring .*model\.ckpt-(\d+)/.exec(chief.output()) ?? [];
    expect(Number(restored)).toBeGreaterThanOrEqual(saved);
    expect(stepsPrinted(chief)[0]).toBeGreaterThanOrEqual(saved);
  });
});
