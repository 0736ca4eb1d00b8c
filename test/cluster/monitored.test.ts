/** Monitored sessions on a cluster of real processes, each with a disk of its own. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { latestCheckpoint } from '../../src/train/checkpoints/latest-checkpoint.js';
import { askPython } from '../python.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-monitored-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PROGRAM = 'monitored.ts';
const TENSORFLOW_RUN = new URL('../../src/train/testing/tensorflow-run.py', import.meta.url);
/** Bounds against hanging: where many share a machine, starting the processes takes most of it. */
const LONG = { timeout: 600_000 };
const PATIENCE_MS = 240_000;
const cluster = (lastStep: number, env: NodeJS.ProcessEnv = {}) =>
  TaskProcesses.create(PROGRAM, 2, 2, { TASKS_ROOT: root, LAST_STEP: String(lastStep), ...env });
const start = (tasks: TaskProcesses, job: 'ps' | 'worker', index: number) =>
  tasks.start(job, index, [], PROGRAM);

const stepsSaid = (task: TaskProcess): number[] =>
  [...task.output().matchAll(/^step (\d+) /gm)].map(([, step]) => Number(step));
const newestStep = async () => {
  const path = await latestCheckpoint(join(root, 'worker-0', 'train_logs'));
  return Number(/-(\d+)$/.exec(path ?? '')?.[1]);
};

describe('a monitored session on two ps and two workers', () => {
  it('saves, stops at the last step, and is not trained further when started again', LONG, async () => {
    for (const round of [0, 1]) {
      await using tasks = await cluster(200);
      for (const index of [0, 1]) start(tasks, 'ps', index);
      const workers = [0, 1].map((index) => start(tasks, 'worker', index));
      const codes = await Promise.all(workers.map(({ exit }) => exit));
      expect(codes, workers.map(({ output }) => output()).join('\n---\n')).toEqual([0, 0]);
      expect(await newestStep()).toBeGreaterThanOrEqual(200);
      expect(await newestStep()).toBeLessThan(205);
      if (round === 0) expect(workers[0]?.output()).toMatch(/saved train_logs\/model\.ckpt-\d\b/);
      else expect(workers.flatMap(stepsSaid)).toEqual([]);
    }
    expect(
      (await readdir(join(root, 'worker-0', 'train_logs'))).some((name) => name.includes('tfevents')),
    ).toBe(true);
  });

  it('continues from what Python TensorFlow has left in the chief’s directory', LONG, async () => {
    const directory = join(root, 'worker-0', 'train_logs');
    await mkdir(directory, { recursive: true });
    const request = { do: 'train', directory, steps: 10, name: 'W', adagrad: true };
    await askPython(TENSORFLOW_RUN, request);
    const own = async () => (await readdir(directory)).filter((name) => /ckpt-(5|10)\./.test(name)).sort();
    const before = await own();
    expect(before).toHaveLength(6);
    await using tasks = await TaskProcesses.create(PROGRAM, 1, 1, { TASKS_ROOT: root, LAST_STEP: '300' });
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
    'goes on from the last cut when a ps is lost and comes back with an empty disk: %s',
    LONG,
    async (_, env) => {
      await using tasks = await cluster(1_000_000, env);
      const ps = [0, 1].map((index) => start(tasks, 'ps', index));
      const workers = [0, 1].map((index) => start(tasks, 'worker', index));
      const [chief, other] = workers as [TaskProcess, TaskProcess];
      await chief.said(/saved train_logs\/model\.ckpt-\d\d+\b/, PATIENCE_MS);
      ps[1]?.child.kill('SIGKILL');
      await ps[1]?.exit;
      const mark = [chief.output().length, other.output().length] as const;
      await rm(join(root, 'ps-1'), { recursive: true });
      start(tasks, 'ps', 1);
      await chief.said(/restoring .*model\.ckpt-\d+: \d variables were lost/, PATIENCE_MS);
      for (const [i, worker] of [chief, other].entries()) {
        await worker.said(/the cluster is whole again[\s\S]*step \d+ /, PATIENCE_MS);
        expect(worker.output().slice(mark[i])).not.toMatch(/starting again from first values/);
      }
      const cut = Number(/restoring .*model\.ckpt-(\d+):/.exec(chief.output())?.[1]);
      expect(cut).toBeGreaterThan(0);
      const after = [...chief.output().matchAll(/whole again[^\n]*\n(?:(?!step)[^\n]*\n)*step (\d+) /g)].at(
        -1,
      );
      expect(Number(after?.[1])).toBeGreaterThanOrEqual(cut);
      chief.child.kill('SIGINT');
      other.child.kill('SIGINT');
      expect(await Promise.all([chief.exit, other.exit])).toEqual([0, 0]);
      expect(await newestStep()).toBeGreaterThan(cut);
    },
  );

  it(
    'lets a chief that comes back with an empty disk join, and restore when all were lost',
    LONG,
    async () => {
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
        await first.said(/saved train_logs\/model\.ckpt-\d\d+\b/, PATIENCE_MS);
        await other.said(/^step \d+ /m, PATIENCE_MS);
        first.child.kill('SIGKILL');
        await first.exit;
        await rm(disk, { recursive: true });
        const before = stepsSaid(other).at(-1) as number;
        const second = start(tasks, 'worker', 0);
        await second.said(/^step \d+ /m, PATIENCE_MS);
        await second.said(/^saved train_logs\/model\.ckpt-\d+/m, PATIENCE_MS);
        saved = lastSaved(second);
        // It has joined what runs: nothing was restored, nothing begun again, and no step was taken back.
        expect(stepsSaid(second)[0]).toBeGreaterThanOrEqual(before);
        expect(saved).toBeGreaterThan(before);
        expect(second.output()).not.toMatch(/restoring|first values/);
        expect(stepsSaid(other)).toEqual([...stepsSaid(other)].sort((a, b) => a - b));
        expect(other.child.exitCode).toBeNull();
      }
      // All were killed at once; the chief's disk is empty once more: the checkpoint is on the other disks.
      await rm(disk, { recursive: true });
      await using tasks = await cluster(1_000_000);
      for (const index of [0, 1]) start(tasks, 'ps', index);
      const chief = start(tasks, 'worker', 0);
      start(tasks, 'worker', 1);
      await chief.said(/^step \d+ /m, PATIENCE_MS);
      const [, restored] = /restoring .*model\.ckpt-(\d+)/.exec(chief.output()) ?? [];
      expect(Number(restored)).toBeGreaterThanOrEqual(saved);
      expect(stepsSaid(chief)[0]).toBeGreaterThanOrEqual(saved);
    },
  );
});
