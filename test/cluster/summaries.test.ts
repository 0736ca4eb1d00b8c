/** The summaries of a job on a cluster of real processes: the chief writes them, from its own batches. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeIdRecords } from '../../src/training/input/testing/id-records.js';
import { askPython } from '../python.js';
import { TaskProcesses } from './processes.js';

const READER = new URL('../../src/app/job/testing/read-scalars.py', import.meta.url);
const RECORDS = 200;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shoal-summaries-'));
  await writeIdRecords(folder, 'records', { files: 2, perFile: RECORDS / 2 });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it.each([
  ['without checkpoints', {}],
  ['with checkpoints', { SAVE_SECS: '1' }],
])('are written only by the chief, and consume no records: %s', { timeout: 300_000 }, async (name, env) => {
  const root = join(folder, name);
  await using tasks = await TaskProcesses.create('summarised-job.ts', 1, 2, {
    TASKS_ROOT: root,
    COUNT_FILES: join(folder, 'records-*'),
    ...env,
  });
  const all = [tasks.start('ps', 0), tasks.start('worker', 0), tasks.start('worker', 1)];
  const codes = await Promise.all(all.map(({ exit }) => exit));
  expect(codes, all.map(({ output }) => output()).join('\n---\n')).toEqual([0, 0, 0]);
  const last = Math.max(...all.map(({ output }) => Number(/done at step (\d+)/.exec(output())?.[1] ?? 0)));
  expect(last).toBe(RECORDS / 2);
  const seen = await askPython<Record<string, [step: number, value: number][]>>(READER, {
    directory: join(root, 'worker-0', 'summaries'),
  });
  expect(seen.first?.length).toBeGreaterThan(0);
  const steps = seen.first?.map(([step]) => step) ?? [];
  expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
  for (const [, value] of seen.first ?? []) expect(value).toBeLessThan(RECORDS);
  for (const other of ['worker-1', 'ps-0']) expect(existsSync(join(root, other, 'summaries'))).toBe(false);
});
