/**
 * Kills every task of a save and of a restore at every point of it, and restarts it with an empty disk. The restore
 * then yields the last committed checkpoint, complete and bit for bit; files of the interrupted save are removed.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Cluster, Failure } from './processes.js';

let cluster: Cluster;
/** The step of the last committed checkpoint. Steps only grow, so each save has a distinct step. */
let saved = 0;

beforeAll(async () => {
  cluster = await Cluster.start('test/checkpoint/task.ts', { chief: 1, worker: 1, ps: 2 });
  await save(1);
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const chief = () => cluster.at('chief/0');

async function save(step: number): Promise<void> {
  await chief().ask('set', { step });
  expect(await chief().ask('save')).toBe(`checkpoints/model.ckpt-${step}`);
  saved = step;
}

/** A save during which a task dies: whether it is committed depends on the moment. */
async function interruptedSave(step: number, die: () => Promise<unknown>): Promise<'saved' | 'failed'> {
  await chief().ask('set', { step });
  const outcome = chief()
    .ask('save')
    .then(
      () => 'saved' as const,
      (error: unknown) => {
        if (!(error instanceof Failure)) throw error;
        return 'failed' as const;
      },
    );
  await die();
  return outcome;
}

async function expectRestored(step: number): Promise<void> {
  const { prefix, found } = await chief().ask<{ prefix: string; found: unknown }>('restore');
  expect({ prefix, found }).toEqual({ prefix: `model.ckpt-${step}`, found: step });
}

/** The next save succeeds, and no files of uncommitted attempts remain. */
async function expectTidyAfterNextSave(): Promise<void> {
  await save(saved + 2);
  const { written, committed } = await chief().ask<{ written: string[]; committed: string[] }>('attempts');
  expect(written).toEqual(committed);
}

describe('a save, with SIGKILL at', () => {
  const points: readonly (readonly [point: string, victim: string, survives: 'before' | 'after'])[] = [
    ['checkpoint.pause', 'chief/0', 'before'],
    ['checkpoint.snapshot.before', 'ps/0', 'before'],
    ['checkpoint.snapshot.after', 'ps/1', 'before'],
    ['checkpoint.write.before', 'ps/0', 'before'],
    ['checkpoint.write.after', 'ps/1', 'before'],
    ['checkpoint.write.verified', 'ps/0', 'before'],
    ['checkpoint.index.before', 'chief/0', 'before'],
    ['checkpoint.index.after', 'chief/0', 'before'],
    ['checkpoint.manifest.before', 'chief/0', 'before'],
    ['checkpoint.manifest.after', 'chief/0', 'after'],
  ];
  it.each(points)(
    '%s of %s: the checkpoint %s it is restored completely',
    async (point, victim, survives) => {
      const task = cluster.at(victim);
      await task.ask('fault', { fault: `${point}=kill` });
      const outcome = await interruptedSave(saved + 1, () => task.exited);
      expect(await task.exited).toBe('SIGKILL');
      expect(outcome).toBe('failed');
      await cluster.replace(victim);
      await expectRestored(survives === 'after' ? saved + 1 : saved);
      await expectTidyAfterNextSave();
    },
  );
});

describe('a save, with SIGKILL at any moment of', () => {
  const moments = ['ps/0', 'ps/1', 'chief/0', 'worker/0'].flatMap((victim, i) =>
    [20, 120].map((ms) => [victim, ms + 25 * i] as const),
  );
  it.each(moments)('%s (after %i ms): one checkpoint is restored completely', async (victim, ms) => {
    const task = cluster.at(victim);
    const outcome = await interruptedSave(saved + 1, async () => {
      await new Promise((resolve) => setTimeout(resolve, ms));
      await task.kill();
    });
    await cluster.replace(victim);
    const { prefix, found } = await chief().ask<{ prefix: string; found: number }>('restore');
    expect(prefix).toBe(`model.ckpt-${found}`);
    // A checkpoint that was reported as saved is found; the restore goes back by at most one checkpoint.
    expect(outcome === 'saved' ? [saved + 1] : [saved, saved + 1]).toContain(found);
    await expectTidyAfterNextSave();
  });
});

describe('a restore, with SIGKILL', () => {
  const points = [
    ['checkpoint.restore.before', 'ps/0'],
    ['checkpoint.restore.amid', 'ps/1'],
    ['checkpoint.restore.amid#2', 'ps/0'],
  ] as const;
  it.each(points)('at %s of %s: it is retried and restores the newest checkpoint', async (point, victim) => {
    await chief().ask('set', { step: saved + 1 });
    const task = cluster.at(victim);
    await task.ask('fault', { fault: `${point}=kill` });
    const restoring = chief().ask<{ prefix: string; found: unknown }>('restore');
    restoring.catch(() => {});
    expect(await task.exited).toBe('SIGKILL');
    await cluster.replace(victim);
    expect(await restoring).toMatchObject({ prefix: `model.ckpt-${saved}`, found: saved });
    await save(saved + 2);
  });

  it.each([0, 5, 20, 60])('of the chief after %i ms: its successor restores the newest', async (ms) => {
    await chief().ask('set', { step: saved + 1 });
    const task = chief();
    task.ask('restore').catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, ms));
    await task.kill();
    await cluster.replace('chief/0');
    await expectRestored(saved);
    // No order of the dead chief takes effect late.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await chief().ask('look')).toBe(saved);
    await save(saved + 2);
  });
});
