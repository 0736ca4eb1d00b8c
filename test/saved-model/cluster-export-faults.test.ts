/**
 * Exports of a cluster while the exporter or a ps is killed, or the exporter's disk is full, at every step: no version
 * appears, the error names the cause, and after the next export nothing else is left on any disk.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../src/training/saved-model/index.js';
import { Cluster, Failure } from '../checkpoint/processes.js';
import { isLeftover, leftovers } from './cluster-leftovers.js';

const PROGRAM = 'test/saved-model/cluster-task.ts';
const JOBS = { ps: 2, worker: 2 };
const CHIEF = 'worker/0';
const OTHER = 'worker/1';

let cluster: Cluster;
let version = 0;
afterAll(() => cluster?.[Symbol.asyncDispose]());

const versionsOf = (exporter: string): readonly string[] => {
  const directory = join(cluster.directory(exporter), 'export');
  return existsSync(directory) ? readdirSync(directory).filter((name) => /^\d+$/.test(name)) : [];
};
const published = () => [CHIEF, OTHER].map((name) => versionsOf(name).length);

/** Starts an export that should fail. */
function failingExport(exporter: string): Promise<Failure> {
  version += 1;
  return cluster
    .at(exporter)
    .ask('export', { version: String(version) })
    .then(
      () => new Failure('', 'it did not fail'),
      (error: unknown) => error as Failure,
    );
}

/** The next export of the same version succeeds, is consistent, and leaves no other files. */
async function expectNextExport(exporter: string): Promise<void> {
  // Initializes the variables of a ps that was killed.
  await cluster.at(CHIEF).ask('step');
  await cluster.at(exporter).ask('export', { version: String(version) });
  const directory = join(cluster.directory(exporter), 'export', String(version));
  await using model = await loadSavedModel(directory, { verify: true });
  const outputs = await model.signatures.serving_default!({ x: 0n });
  const { step: _, ...values } = outputs as Record<string, Tensor>;
  for (const [name, value] of Object.entries(values)) expect(value.number(), name).toBeGreaterThan(0);
  expect(leftovers(cluster)).toEqual([]);
}

/** A blob that a running write published after the failure is removed soon. */
const expectNothingLeft = () =>
  expect.poll(() => leftovers(cluster), { timeout: 60_000, interval: 200 }).toEqual([]);

async function relaunch(name: string): Promise<void> {
  await cluster.launch(name).ask('wait');
}

describe('SIGKILL', () => {
  beforeAll(async () => {
    cluster = await Cluster.start(PROGRAM, JOBS);
    await cluster.at(CHIEF).ask('step');
  });

  const exporterPoints = [
    'export.variables.before',
    'export.variables.after',
    'export.model.before',
    'export.publish.before',
  ].flatMap((point) => [
    [point, CHIEF],
    [point, OTHER],
  ]) as readonly (readonly [string, string])[];
  const chiefPoints = [
    'checkpoint.pause',
    'checkpoint.index.before',
    'checkpoint.index.after',
    'checkpoint.manifest.before',
    'checkpoint.manifest.after',
  ].map((point) => [point, CHIEF] as const);
  it.each([...exporterPoints, ...chiefPoints])('at %s of the exporter %s', async (point, exporter) => {
    const before = published();
    await cluster.at(exporter).ask('fault', { fault: `${point}=kill` });
    expect(await failingExport(exporter)).toMatchObject({ code: 'EXIT' });
    expect(await cluster.at(exporter).exited).toBe('SIGKILL');
    expect(published()).toEqual(before);
    await relaunch(exporter);
    await expectNextExport(exporter);
  });

  it.each(['checkpoint.write.before', 'checkpoint.write.after', 'checkpoint.write.verified'])(
    'of the exporter while a ps is at %s',
    async (point) => {
      const before = published();
      const ps = cluster.at('ps/1');
      await ps.ask('fault', { fault: `${point}=stop` });
      const failed = failingExport(OTHER);
      await ps.stopped();
      await cluster.at(OTHER).kill();
      expect(await failed).toMatchObject({ code: 'EXIT' });
      ps.continue();
      await ps.ask('fault', { fault: '' });
      expect(published()).toEqual(before);
      await relaunch(OTHER);
      await expectNextExport(OTHER);
    },
  );

  it.each(['checkpoint.index.before', 'checkpoint.manifest.before'])(
    'of the chief at %s, which exports for another worker',
    async (point) => {
      const before = published();
      await cluster.at(CHIEF).ask('fault', { fault: `${point}=kill` });
      const failure = await failingExport(OTHER);
      expect(failure.code).toBe('SHOAL_UNREACHABLE');
      expect(failure.message).toMatch(
        /^\/job:worker\/task:1 could not export: the chief \(\/job:worker\/task:0\) (was lost meanwhile|does not answer)/,
      );
      expect(published()).toEqual(before);
      await expectNothingLeft();
      await relaunch(CHIEF);
      await expectNextExport(OTHER);
    },
  );

  const psPoints = ['snapshot.before', 'snapshot.after', 'write.before', 'write.after', 'write.verified'];
  it.each(
    psPoints.flatMap((point, i) => [
      [`checkpoint.${point}`, `ps/${i % 2}`, CHIEF] as const,
      [`checkpoint.${point}`, `ps/${i % 2}`, OTHER] as const,
    ]),
  )('at %s of %s: the export of %s fails, and the error names the ps', async (point, ps, exporter) => {
    const before = published();
    await cluster.at(ps).ask('fault', { fault: `${point}=kill` });
    const failure = await failingExport(exporter);
    expect(await cluster.at(ps).exited).toBe('SIGKILL');
    expect(failure.code).toBe('SHOAL_UNREACHABLE');
    expect(failure.message).toContain(`/job:ps/task:${ps.at(-1)}`);
    expect(published()).toEqual(before);
    await expectNothingLeft();
    await relaunch(ps);
    await expectNextExport(exporter);
  });
});

const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', ['-rm', 'sh', '-c', 'mount -t tmpfs tmpfs /mnt']).status === 0;

describe.runIf(canMount).each([CHIEF, OTHER])('a full disk of the exporter %s', (exporter) => {
  /** Pages of the two shards, of 800,000 bytes each, and of the step. */
  const SHARD_PAGES = Math.ceil(800_000 / 4096);
  const task = `/job:${exporter.replace('/', '/task:')}`;
  const named = new RegExp(
    `^No space left (on the disk of ${task} for the variables of an export|for the export \\S*export/1): `,
  );
  let full: Cluster;
  beforeAll(async () => {
    full = await Cluster.start(PROGRAM, JOBS, (name) =>
      name === exporter ? { TASK_DISK_BYTES: String(16 << 20) } : {},
    );
    await full.at(CHIEF).ask('step');
  });
  afterAll(() => full?.[Symbol.asyncDispose]());

  const left = async () =>
    (await full.at(exporter).ask<string[]>('files')).filter(
      (path) => isLeftover(path) || path.startsWith('export/'),
    );

  /** A running write may publish its blob after the failure; it is removed two seconds later. */
  const expectNothingLeft = async () => {
    await sleep(2500);
    await expect.poll(left, { timeout: 60_000, interval: 200 }).toEqual([]);
    expect(leftovers(full)).toEqual([]);
  };

  const sizes = [0, 1, 4, SHARD_PAGES - 1, SHARD_PAGES + 1, 2 * SHARD_PAGES - 2];
  it.each(sizes)('with %i pages free: the error reports it, and nothing is left', async (freePages) => {
    await full.at(exporter).ask('fill', { freePages });
    const failure = await full
      .at(exporter)
      .ask('export', { version: '1' })
      .catch((error: unknown) => error as Failure);
    expect(failure).toMatchObject({ code: 'SHOAL_NO_SPACE' });
    expect((failure as Failure).message).toMatch(named);
    await expectNothingLeft();
  });

  it('with more free pages each time, until there is enough space and the export is complete', async () => {
    const failures: string[] = [];
    for (let freePages = 2 * SHARD_PAGES - 1; failures.length < 40; freePages++) {
      await full.at(exporter).ask('fill', { freePages });
      const failure = await full
        .at(exporter)
        .ask('export', { version: '1' })
        .then(
          () => undefined,
          (error: unknown) => error as Failure,
        );
      if (!failure) break;
      failures.push(failure.message);
      expect(failure, failure.message).toMatchObject({ code: 'SHOAL_NO_SPACE' });
      expect(failure.message).toMatch(named);
      await expectNothingLeft();
    }
    expect(failures.length).toBeGreaterThan(0);
    expect(failures.length).toBeLessThan(40);
    const files = await left();
    expect(files).toContain('export/1/saved_model.pb');
    expect(files.filter(isLeftover)).toEqual([]);
    // The ps have sent their shards over the network.
    expect(await full.at(exporter).ask('modes', { version: '1' })).toHaveLength(1);
  });
});
