/** A restore waits, up to a deadline, for offline tasks that hold copies of the checkpoint. */
import { describe, expect, it } from 'vitest';
import { Cluster, type Task } from './processes.js';

interface Restored {
  readonly prefix: string;
  readonly found: number | string;
}

const save = async (chief: Task, step: number) => {
  await chief.ask('set', { step });
  expect(await chief.ask('save')).toBe(`checkpoints/model.ckpt-${step}`);
};

/** Kills a worker and waits until the chief has noticed. */
async function lose(cluster: Cluster, name: string): Promise<void> {
  await cluster.at(name).kill();
  await cluster.at('chief/0').ask('lose', { task: name.replace(/^(\w+)\/(\d)$/, '/job:$1/task:$2') });
}

async function waitForLog(task: Task, what: RegExp): Promise<void> {
  await expect.poll(() => task.log.join('\n'), { timeout: 300_000, interval: 100 }).toMatch(what);
}

/**
 * Step 1 is on the disks of ps and chief, step 2 on those of ps and worker: replicas go to a worker if there is one. Then
 * the ps restarts with an empty disk, and the worker is offline.
 */
async function withoutHolder(env: NodeJS.ProcessEnv = {}): Promise<Cluster> {
  const cluster = await Cluster.start('test/checkpoint/task.ts', { chief: 1, ps: 1, worker: 1 }, () => env);
  const chief = cluster.at('chief/0');
  await lose(cluster, 'worker/0');
  await save(chief, 1);
  cluster.launch('worker/0');
  await cluster.at('worker/0').ask('wait');
  await chief.ask('wait');
  await save(chief, 2);
  await cluster.at('worker/0').kill();
  await cluster.at('ps/0').kill();
  await cluster.empty('ps/0');
  cluster.launch('ps/0');
  return cluster;
}

describe('the newest checkpoint, whose only holder is offline', () => {
  it('is restored when the holder is back', { timeout: 1_800_000 }, async () => {
    await using cluster = await withoutHolder();
    const chief = cluster.at('chief/0');
    const restoring = chief.ask<Restored>('restoreWithPs');
    restoring.catch(() => {});
    await waitForLog(chief, /model\.ckpt-2 cannot be restored yet .*waiting for \/job:worker\/task:0/);
    cluster.launch('worker/0');
    expect(await restoring).toMatchObject({ prefix: 'model.ckpt-2', found: 2 });
  });

  it('is abandoned at the deadline for the previous one, and this is logged', {
    timeout: 1_800_000,
  }, async () => {
    await using cluster = await withoutHolder({ TASK_WAIT_MS: '6000' });
    const chief = cluster.at('chief/0');
    expect(await chief.ask<Restored>('restoreWithPs')).toMatchObject({ prefix: 'model.ckpt-1', found: 1 });
    const log = chief.log.join('\n');
    expect(log).toMatch(/\/job:worker\/task:0 did not come back within 6 s/);
    expect(log).toMatch(/checkpoint model\.ckpt-2 cannot be restored: .*; trying the previous one/);
  });
});

/** Chief and ps have lost their disks; only one worker knows of step 1, only the other of step 2. */
async function withoutChiefDisk(): Promise<Cluster> {
  const cluster = await Cluster.start('test/checkpoint/task.ts', { chief: 1, ps: 1, worker: 2 });
  for (const [step, away] of [
    [1, 'worker/1'],
    [2, 'worker/0'],
  ] as const) {
    await lose(cluster, away);
    await save(cluster.at('chief/0'), step);
    if (step === 2) break;
    cluster.launch(away);
    await cluster.at(away).ask('wait');
    await cluster.at('chief/0').ask('wait');
  }
  for (const name of ['chief/0', 'ps/0']) {
    await cluster.at(name).kill();
    await cluster.empty(name);
  }
  return cluster;
}

describe('a chief with an empty disk', () => {
  it('waits for all tasks before it decides which checkpoint is the newest', {
    timeout: 1_800_000,
  }, async () => {
    await using cluster = await withoutChiefDisk();
    await cluster.at('worker/1').kill();
    for (const name of ['chief/0', 'ps/0', 'worker/0']) cluster.launch(name);
    const chief = cluster.at('chief/0');
    const restoring = chief.ask<Restored>('restoreWithPs');
    restoring.catch(() => {});
    await waitForLog(chief, /looking for the newest checkpoint: .*waits for \/job:worker\/task:1/);
    cluster.launch('worker/1');
    expect(await restoring).toMatchObject({ prefix: 'model.ckpt-2', found: 2 });
  });

  it('waits for a task that counts as alive but does not answer', { timeout: 1_800_000 }, async () => {
    await using cluster = await withoutChiefDisk();
    for (const name of ['chief/0', 'ps/0', 'worker/0']) cluster.launch(name);
    const [chief, frozen] = [cluster.at('chief/0'), cluster.at('worker/1')];
    await chief.ask('wait');
    frozen.pause();
    const restoring = chief.ask<Restored>('restoreWithPs');
    restoring.catch(() => {});
    // The line depends on whether the task has been declared dead yet.
    const line =
      /(not known; waiting for|looking for the newest checkpoint: .*waits for) \/job:worker\/task:1/;
    await Promise.race([waitForLog(chief, line), restoring]);
    frozen.continue();
    expect(await restoring).toMatchObject({ prefix: 'model.ckpt-2', found: 2 });
  });
});

it('a restore does not wait for holders that it does not need: an offline worker, a ps with an empty disk', {
  timeout: 1_800_000,
}, async () => {
  await using cluster = await Cluster.start('test/checkpoint/task.ts', { chief: 1, ps: 1, worker: 2 });
  const chief = cluster.at('chief/0');
  await save(chief, 1);
  await lose(cluster, 'worker/0');
  await save(chief, 2);
  await cluster.at('ps/0').kill();
  await cluster.empty('ps/0');
  cluster.launch('ps/0');
  expect(await chief.ask<Restored>('restoreWithPs')).toMatchObject({ prefix: 'model.ckpt-2', found: 2 });
  expect(chief.log.join('\n')).not.toMatch(/waiting for|waits for \/job:worker/);
});
