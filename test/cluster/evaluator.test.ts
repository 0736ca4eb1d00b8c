/** An evaluator in a cluster of real processes, each with its own disk. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { scalarsIn } from '../../src/training/train/testing/workspace.js';
import { askPython } from '../python.js';
import { TaskProcesses } from './processes.js';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-evaluator-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const PYTHON = new URL('../../src/training/train/testing/saver.py', import.meta.url);

it('evaluates the checkpoints of the job up to the last, and keeps the best', {
  timeout: 600_000,
}, async () => {
  await using tasks = await TaskProcesses.create('evaluated-job.ts', 2, 2, { TASKS_ROOT: root });
  // The other tasks need not know the evaluator: it chooses its own address.
  const evaluator = tasks.start('evaluator', 0);
  const others = [
    ...[0, 1].map((index) => tasks.start('ps', index)),
    ...[0, 1].map((index) => tasks.start('worker', index)),
  ];
  const all = [evaluator, ...others];
  const codes = await Promise.all(all.map(({ exit }) => exit));
  expect(codes, all.map(({ output }) => output()).join('\n---\n')).toEqual(all.map(() => 0));
  const saved = [...(others[2]?.output() ?? '').matchAll(/^saved model\.ckpt-(\d+)/gm)].map(([, step]) =>
    Number(step),
  );
  const found = await scalarsIn(join(root, 'evaluator-0/eval'), 'error');
  // The evaluated checkpoints are saved ones, in order, and include the last.
  expect(found.length).toBeGreaterThanOrEqual(2);
  for (const [step] of found) expect(saved).toContain(step);
  expect(found.map(([step]) => step)).toEqual([...found.map(([step]) => step)].sort((a, b) => a - b));
  expect(found.at(-1)?.[0]).toBe(saved.at(-1));
  expect(found.at(-1)?.[1]).toBeLessThan(found[0]?.[1] as number);

  const directory = join(root, 'evaluator-0/best');
  const [best] = JSON.parse(await readFile(join(directory, 'best.json'), 'utf8')) as [
    { step: number; value: number; path: string },
  ];
  expect(best.value).toBeCloseTo(Math.min(...found.map(([, value]) => value)), 6);
  const values = await askPython<Record<string, number | number[]>>(PYTHON, { read: best.path });
  expect(Object.keys(values).sort()).toEqual(['b', 'global_step', 'w']);
  expect(values.global_step).toBe(best.step);
  // Only the chief shows the job's checkpoints, and the evaluator does not train.
  expect(await readdir(join(root, 'evaluator-0'))).toEqual(['best', 'blobs', 'eval']);
});
