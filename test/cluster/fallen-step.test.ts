/** A global step that falls behind the chief's back ends training, and no checkpoint is saved or removed after it. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { TaskProcesses } from './processes.js';

const PROGRAM = 'fallen-step.ts';
const TIMEOUT_MS = 240_000;

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-fallen-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** The checkpoints of which the ps has a manifest, by step. */
async function checkpoints(): Promise<readonly number[]> {
  const names = await readdir(join(root, 'ps-0', 'blobs'), { recursive: true });
  const steps = names.flatMap((name) => /manifests\/\d+-(\d+)-/.exec(name)?.[1] ?? []);
  return [...new Set(steps.map(Number))].sort((a, b) => a - b);
}

it.each(['job', 'monitored', 'supervisor'])(
  'a fallen step stops all saves: %s',
  {
    timeout: 900_000,
  },
  async (api) => {
    await using tasks = await TaskProcesses.create(PROGRAM, 1, 2, { TASKS_ROOT: root, API: api });
    const start = (job: 'ps' | 'worker', index: number) => tasks.start(job, index, [], PROGRAM);
    const ps = start('ps', 0);
    const chief = start('worker', 0);
    const culprit = start('worker', 1);
    await culprit.waitForOutput(/ready/, TIMEOUT_MS);
    await chief.waitForOutput(/(saved \S*model\.ckpt-[1-9]\d*[\s\S]*){2}/, TIMEOUT_MS);
    culprit.child.kill('SIGUSR2');
    await culprit.waitForOutput(/the step is set to 0/, TIMEOUT_MS);
    expect(await chief.exit, chief.output()).toBe(EXIT.error);
    const [, before, after] = /The global step fell from (\d+) to (\d+)/.exec(chief.output()) ?? [];
    expect(Number(before), chief.output()).toBeGreaterThan(Number(after));
    for (const other of [ps, culprit])
      await other.waitForOutput(/the chief has stopped all saves/, TIMEOUT_MS);
    const saved = [...chief.output().matchAll(/saved \S*model\.ckpt-(\d+)/g)].map(([, step]) => Number(step));
    expect(saved).toEqual([...saved].sort((a, b) => a - b));
    const kept = await checkpoints();
    expect(kept.at(-1)).toBe(saved.at(-1));
    expect(kept.length).toBeGreaterThan(1);

    // A chief that starts again restores the newest checkpoint, although all variables have values, and although the other
    // worker may have trained on beyond its step.
    const successor = start('worker', 0);
    await successor.waitForOutput(
      /the global step had fallen before the former chief ended: going back to the newest checkpoint/,
      TIMEOUT_MS,
    );
    await culprit.waitForOutput(/saves are possible again/, TIMEOUT_MS);
    await successor.waitForOutput(/saved \S*model\.ckpt-\d+/, TIMEOUT_MS);
    const [, first] = /saved \S*model\.ckpt-(\d+)/.exec(successor.output()) ?? [];
    expect(Number(first)).toBeGreaterThan(saved.at(-1) as number);
  },
);
