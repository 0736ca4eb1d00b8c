import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runInProcess } from '../../src/app/job/running/run-local.js';
import { TaskProcesses } from './processes.js';
import job, { STEPS } from './programs/sync-job.js';

const outputsOf = (text: string): Record<string, number[]> =>
  Object.fromEntries(
    [...text.matchAll(/· (\w+) = (\[[^·\n]*\])/g)].map(([, name, value]) => [
      name as string,
      (JSON.parse(value as string) as number[]).flat(),
    ]),
  );

describe('synchronous training', () => {
  it('computes the same as one process on the joined batch', { timeout: 600_000 }, async () => {
    const alone = await runInProcess(job);
    await using tasks = await TaskProcesses.create('sync-job.ts', 2, 3);
    const started = [
      tasks.start('ps', 0),
      tasks.start('ps', 1),
      ...[0, 1, 2].map((index) => tasks.start('worker', index)),
    ];
    const codes = await Promise.all(started.map(({ exit }) => exit));
    expect(codes, started.map(({ output }) => output()).join('\n---\n')).toEqual([0, 0, 0, 0, 0]);
    const chief = started[2]?.output() ?? '';
    expect(chief).toMatch(new RegExp(`done at step ${STEPS};`));
    const together = outputsOf(chief);
    for (const [name, value] of Object.entries(alone.outputs)) {
      const expected = (value as number[]).flat();
      expect(together[name]).toHaveLength(expected.length);
      for (const [i, v] of expected.entries()) expect(together[name]?.[i]).toBeCloseTo(v, 5);
    }
  });

  it('saves at the last step', { timeout: 600_000 }, async () => {
    const root = mkdtempSync(join(tmpdir(), 'shoal-sync-'));
    try {
      await using tasks = await TaskProcesses.create('sync-job.ts', 1, 2, {
        TASKS_ROOT: root,
        SYNC_SAVE_STEPS: String(STEPS / 2),
      });
      const started = [tasks.start('ps', 0), tasks.start('worker', 0), tasks.start('worker', 1)];
      const codes = await Promise.all(started.map(({ exit }) => exit));
      const chief = started[1]?.output() ?? '';
      expect(codes, chief).toEqual([0, 0, 0]);
      expect(chief).toMatch(new RegExp(`saved model.ckpt-${STEPS} in`));
      expect(chief).not.toMatch(/failed/i);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });

  it('continues when a worker dies', { timeout: 600_000 }, async () => {
    await using tasks = await TaskProcesses.create('sync-job.ts', 1, 3, { SYNC_STEPS: '1000000' });
    tasks.start('ps', 0);
    const workers = [0, 1, 2].map((index) => tasks.start('worker', index));
    await Promise.all(workers.map((worker) => worker.waitForOutput(/step \d+ of/)));
    workers[2]?.child.kill('SIGKILL');
    const mark = workers[0]?.output().length ?? 0;
    const stepAfter = () =>
      [
        ...(workers[0]
          ?.output()
          .slice(mark)
          .matchAll(/step (\d+) of/g) ?? []),
      ].map(([, step]) => Number(step));
    const deadline = Date.now() + 240_000;
    while (stepAfter().length < 4 && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 100));
    const steps = stepAfter();
    expect(steps.length, workers[0]?.output()).toBeGreaterThanOrEqual(4);
    expect(steps.at(-1)).toBeGreaterThan(steps[0] as number);
  });
});
