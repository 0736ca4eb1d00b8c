/**
 * Exports of a training cluster, by the chief and by another worker, each with its own disk: every export is a
 * consistent snapshot, Python TensorFlow loads it, and nothing else is left on any disk.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../src/training/saved-model/index.js';
import { Cluster, type Failure } from '../checkpoint/processes.js';
import { askPython } from '../python.js';
import { leftovers } from './cluster-leftovers.js';

const ORACLE = new URL('../../src/training/saved-model/testing/oracle.py', import.meta.url);
const WORKERS = ['worker/0', 'worker/1'] as const;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start('test/saved-model/cluster-task.ts', { ps: 2, worker: 2 });
  await Promise.all(WORKERS.map((name) => cluster.at(name).ask('begin')));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const pathOf = (exporter: string, version: string) => join(cluster.directory(exporter), 'export', version);

async function made(): Promise<number> {
  const steps = await Promise.all(WORKERS.map((name) => cluster.at(name).ask<number>('steps')));
  return steps.reduce((a, b) => a + b);
}

async function trainOn(steps: number): Promise<void> {
  const goal = (await made()) + steps;
  while ((await made()) < goal) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** The distinct step counts of the elements of an export. */
async function stepsIn(path: string): Promise<readonly number[]> {
  await using model = await loadSavedModel(path, { verify: true });
  const outputs = await model.signatures.serving_default!({ x: 0n });
  return [...new Set(Object.values(outputs).map((value) => (value as Tensor).number()))];
}

const exported: string[] = [];

async function exportBy(exporter: string, version: string, more: object = {}): Promise<string> {
  await cluster.at(exporter).ask('export', { version, ...more });
  exported.push(pathOf(exporter, version));
  return pathOf(exporter, version);
}

describe('an export during training', () => {
  it.each(WORKERS)('by %s is a consistent snapshot', async (exporter) => {
    let before = 0;
    for (const version of ['1', '2', '3']) {
      await trainOn(20);
      const seen = await stepsIn(await exportBy(exporter, version));
      expect(seen).toHaveLength(1);
      expect(seen[0]).toBeGreaterThanOrEqual(before + 20);
      before = seen[0] as number;
    }
    await trainOn(20);
  });

  it('by both workers at once, while a checkpoint is saved', async () => {
    const saves = [cluster.at('worker/0').ask('save'), cluster.at('worker/0').ask('save')];
    const paths = await Promise.all(WORKERS.map((name) => exportBy(name, '4')));
    for (const path of paths) expect(await stepsIn(path)).toHaveLength(1);
    for (const saved of await Promise.all(saves)) expect(saved).toMatch(/^checkpoints\/model\.ckpt-\d+$/);
    await trainOn(20);
  });

  it('is inconsistent if the workers do not pause, which these tests detect', async () => {
    let torn = 0;
    for (let i = 0; i < 20 && torn === 0; i++) {
      const path = await exportBy('worker/1', `loose-${i}`, { consistency: 'relaxed' });
      if ((await stepsIn(path)).length > 1) torn += 1;
    }
    expect(torn).toBe(1);
  });

  it('is loaded by Python TensorFlow', async () => {
    const consistent = exported.filter((path) => !path.includes('loose'));
    expect(consistent).toHaveLength(8);
    const cases = consistent.flatMap((dir) =>
      ['v1', 'v2'].map((how) => ({ how, dir, signature: 'serving_default', inputs: { x: 1000 } })),
    );
    const found = await askPython<Record<string, unknown>[]>(ORACLE, cases);
    for (const [i, dir] of consistent.entries()) {
      const [step] = await stepsIn(dir);
      const expected = Object.fromEntries(
        ['step', 'leastA', 'mostA', 'leastB', 'mostB'].map((name) => [name, [(step as number) + 1000]]),
      );
      expect(found[2 * i]?.out).toEqual(expected);
      expect(found[2 * i + 1]).toEqual(expected);
    }
  });

  it('leaves nothing on the disks of the exporter and of other tasks', () => {
    expect(leftovers(cluster)).toEqual([]);
    for (const name of WORKERS) {
      const versions = readdirSync(join(cluster.directory(name), 'export')).sort();
      expect(versions.filter((version) => !version.startsWith('loose'))).toEqual(['1', '2', '3', '4']);
    }
    for (const name of ['ps/0', 'ps/1']) expect(readdirSync(cluster.directory(name))).not.toContain('export');
  });
});

describe('an export at the end of training', () => {
  const chief = () => cluster.at('worker/0');
  const other = () => cluster.at('worker/1');

  it('by another worker delays the exit of the chief, which logs the worker it waits for', async () => {
    await Promise.all(WORKERS.map((name) => cluster.at(name).ask('end')));
    const finished = chief().ask('finish');
    await expect
      .poll(() => chief().log.join('\n'), { timeout: 60_000 })
      .toMatch(/waiting for the end of training of \/job:worker\/task:1, which may export, at most 60 s/);
    // The chief looks for exports now and then, and may miss a short one.
    for (let i = 0; !/staying for the export of \/job:worker\/task:1/.test(chief().log.join('\n')); i++) {
      expect(i).toBeLessThan(50);
      expect(await stepsIn(await exportBy('worker/1', `last-${i}`))).toHaveLength(1);
    }
    await other().ask('finish');
    await finished;
  });

  it('delays the exit no longer than the deadline', async () => {
    await other().ask('unfinish');
    await chief().ask('unfinish');
    await chief().ask('finish', { timeoutMs: 500 });
    expect(chief().log.at(-1)).toMatch(/\/job:worker\/task:1 did not report the end of training in time/);
  });

  it('fails without a chief, with an error that names it', async () => {
    await chief().ask('leave');
    const failure = (await other()
      .ask('export', { version: '6' })
      .catch((error: unknown) => error)) as Failure;
    expect(failure.code).toBe('SHOAL_UNREACHABLE');
    expect(failure.message).toMatch(
      /\/job:worker\/task:1 could not export: the chief \(\/job:worker\/task:0\) has left the cluster/,
    );
    expect(readdirSync(join(cluster.directory('worker/1'), 'export'))).not.toContain('6');
    expect(leftovers(cluster)).toEqual([]);
  });
});
