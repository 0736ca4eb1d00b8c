/** A chief that has saved knows the checkpoints without asking; a restore checks the files while it begins. */
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Checkpoints } from '../../src/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/checkpoint/manifest.js';
import { fileBlob } from '../../src/checkpoint/names.js';
import { PLACES, TestCluster } from './test-cluster.js';

let cluster: TestCluster;
let chief: Checkpoints;

beforeEach(() => {
  cluster = new TestCluster();
  chief = cluster.chief();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const knownSteps = () => chief.known?.manifests.map(({ step }) => step);

/** Removes all copies of a file of a checkpoint. */
function lose(manifest: Manifest, file: string | undefined): void {
  for (const place of PLACES)
    rmSync(cluster.disks.path(place, fileBlob('job', manifest, file as string)), { force: true });
}

const shards = ({ files }: Manifest) => files.flatMap(({ file }) => (file.includes('.data-') ? [file] : []));

it('knows its checkpoints after a save, newest first', async () => {
  expect(knownSteps()).toBeUndefined();
  await cluster.save(chief, 1);
  await cluster.save(chief, 2);
  expect(knownSteps()).toEqual([2, 1]);
  await cluster.set(99);
  await chief.restoreNewest({ variables: cluster.variables }, chief.known);
  expect(await cluster.step()).toBe(2);
});

it('knows none before its first save, although others exist', async () => {
  await cluster.save(chief, 1);
  const successor = cluster.chief({ incarnation: 2 });
  expect(successor.known).toBeUndefined();
  await successor.restoreNewest({ variables: cluster.variables });
  expect(successor.known).toBeUndefined();
});

it('asks again after a failed save, whose manifest may be on some disks, and during a save', async () => {
  await cluster.save(chief, 1);
  const during: unknown[] = [];
  const meta = () => {
    during.push(chief.known);
    throw new Error('no graph');
  };
  await expect(chief.save(cluster.request(2, { meta }))).rejects.toThrow('no graph');
  expect(during).toEqual([undefined]);
  expect(knownSteps()).toBeUndefined();
  await cluster.save(chief, 3);
  expect(knownSteps()).toEqual([3, 1]);
});

it('restores the previous one if the newest it knows is not complete, and asks again if none is', async () => {
  const first = await cluster.save(chief, 1);
  const second = await cluster.save(chief, 2);
  lose(second, shards(second)[0]);
  await chief.restoreNewest({ variables: cluster.variables }, chief.known);
  expect(await cluster.step()).toBe(1);
  lose(first, shards(first)[1]);
  await expect(chief.restoreNewest({ variables: cluster.variables }, chief.known)).rejects.toMatchObject({
    code: 'SHOAL_UNREACHABLE',
  });
  expect(knownSteps()).toBeUndefined();
});

it.each([0, 1])(
  'gives no value to the owners that come last if the shard of owner %i is lost',
  async (lost) => {
    const manifest = await cluster.save(chief, 1);
    lose(manifest, shards(manifest)[lost]);
    await cluster.set(99);
    const restoring = chief.restore(manifest, { variables: cluster.variables, last: new Set(['ps/1']) });
    await expect(restoring).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining(`no copy of ${shards(manifest)[lost]} is reachable`) as string,
    });
    const [, last] = cluster.owners;
    expect((await last!.values())[2]!.number()).toBe(99);
  },
);
