/** A restore looks for lost files while it begins, and fails before any owner that had no values gets some. */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Checkpoints } from '../../src/distributed/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob } from '../../src/distributed/checkpoint/format/names.js';
import { PLACES, TestCluster } from './test-cluster.js';

let cluster: TestCluster;
let chief: Checkpoints;

beforeEach(() => {
  cluster = new TestCluster();
  // The owner whose shard is lost reads later than the other one has assigned.
  const owner = (name: string) =>
    cluster.ownerWith(name, (service) => ({
      restore: async (...given) => {
        if (name === late) await sleep(100);
        return service.restore(...given);
      },
    }));
  chief = cluster.chief({ owner });
});
afterEach(() => cluster[Symbol.asyncDispose]());

let late: string | undefined;

/** Removes all copies of the shard of an owner, and returns the error to expect. */
function loseShard(manifest: Manifest, index: number): object {
  const shards = manifest.files.map(({ file }) => file).filter((file) => file.includes('.data-'));
  const lost = shards[index] as string;
  for (const place of PLACES)
    rmSync(cluster.disks.path(place, fileBlob('job', manifest, lost)), { force: true });
  late = `ps/${index}`;
  const message = expect.stringContaining(`no copy of ${lost} is reachable`) as string;
  return { code: 'SHOAL_UNREACHABLE', message };
}

it.each([0, 1])('changes nothing if the shard of owner %i is lost', async (index) => {
  const manifest = await cluster.save(chief, 1);
  const error = loseShard(manifest, index);
  await cluster.set(99);
  await expect(chief.restore(manifest, { variables: cluster.variables })).rejects.toMatchObject(error);
  expect(await cluster.step()).toBe(99);
});

it.each([0, 1])('gives the last owner no value if the shard of owner %i is lost', async (index) => {
  const manifest = await cluster.save(chief, 1);
  const error = loseShard(manifest, index);
  await cluster.set(99);
  const request = { variables: cluster.variables, last: new Set(['ps/1']) };
  await expect(chief.restore(manifest, request)).rejects.toMatchObject(error);
  expect((await cluster.owners[1]!.values())[2]!.number()).toBe(99);
});
