/** Every kind of damage to every file of a checkpoint: a restore yields one complete checkpoint, or reports why not. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';
import type { Checkpoints } from '../../src/distributed/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob, manifestBlob } from '../../src/distributed/checkpoint/format/names.js';
import { PLACES, TestCluster } from './test-cluster.js';

let cluster: TestCluster;
let chief: Checkpoints;
let second: Manifest;
/** The blobs of the second checkpoint, and the places of their copies. */
let blobs: readonly { readonly kind: string; readonly name: string; readonly places: readonly string[] }[];

beforeAll(async () => {
  cluster = new TestCluster();
  chief = cluster.chief();
  await cluster.save(chief, 1);
  second = await cluster.save(chief, 2);
  const names = [
    ...second.files.map(({ file }) => fileBlob('job', second, file)),
    manifestBlob('job', second),
  ];
  blobs = names.map((name) => ({
    kind: /\.json$/.test(name) ? 'manifest' : /\.(index|meta|data-0000\d)/.exec(name)![1]!,
    name,
    places: PLACES.filter((place) => existsSync(cluster.disks.path(place, name))),
  }));
});
afterAll(() => cluster[Symbol.asyncDispose]());

const KINDS = ['data-00000', 'data-00001', 'index', 'meta', 'manifest'];

const DAMAGES: Record<string, (bytes: Buffer) => Buffer | undefined> = {
  'the first bit flipped': (bytes) => flipped(bytes, 0),
  'a bit in the middle flipped': (bytes) => flipped(bytes, bytes.length >> 1),
  'the last bit flipped': (bytes) => flipped(bytes, bytes.length - 1),
  'the last byte removed': (bytes) => bytes.subarray(0, -1),
  'the second half removed': (bytes) => bytes.subarray(0, bytes.length >> 1),
  'no content': () => Buffer.alloc(0),
  'only zeros': (bytes) => Buffer.alloc(bytes.length),
  'extra bytes at the end': (bytes) => Buffer.concat([bytes, bytes]),
  'no file at all': () => undefined,
};

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at]! ^= 0x40;
  return copy;
}

/** Damages the copies at those places, restores, reports the result, and repairs the copies. */
async function restoredWith(
  name: string,
  places: readonly string[],
  damage: (bytes: Buffer) => Buffer | undefined,
) {
  const paths = places.map((place) => cluster.disks.path(place, name));
  const good = paths.map((path) => readFileSync(path));
  cluster.log.length = 0;
  await cluster.set(77);
  try {
    paths.forEach((path, i) => {
      const bad = damage(good[i]!);
      if (bad === undefined) rmSync(path);
      else writeFileSync(path, bad);
    });
    await chief.restoreNewest({ variables: cluster.variables });
    const log = cluster.log.join('\n');
    if (places.length === 1) await replaced();
    return { step: await cluster.step(), log };
  } finally {
    paths.forEach((path, i) => {
      writeFileSync(path, good[i]!);
    });
  }
}

/** Damaged copies are replaced in the background; the next case must not change the files meanwhile. */
async function replaced(): Promise<void> {
  const hasLogged = (pattern: RegExp) => cluster.log.some((line) => pattern.test(line));
  if (!hasLogged(/\.(data|index|meta)\S* at \S+ is skipped/)) return;
  const end = performance.now() + 5000;
  while (!hasLogged(/the damaged copy of/) && performance.now() < end) await sleep(5);
}

describe.each(KINDS)('the %s of the newest checkpoint', (kind) => {
  it.each(Object.keys(DAMAGES))('in any one copy with %s: other copies are used', async (how) => {
    const { name, places } = blobs.find((blob) => blob.kind === kind)!;
    expect(places.length).toBeGreaterThan(1);
    for (const place of places) {
      const { step } = await restoredWith(name, [place], DAMAGES[how]!);
      expect(step, place).toBe(2);
    }
  });

  it.each(Object.keys(DAMAGES))(
    'in all copies with %s: never a partial restore, never silently an older one',
    async (how) => {
      const { name, places } = blobs.find((blob) => blob.kind === kind)!;
      const { step, log } = await restoredWith(name, places, DAMAGES[how]!);
      // No value comes from the graph, and nothing reads bytes after the end of a data file.
      const isHarmless = kind === 'meta' || (how === 'extra bytes at the end' && kind !== 'manifest');
      if (step === 2) expect(isHarmless).toBe(true);
      else {
        expect(step).toBe(1);
        // A missing manifest leaves no trace: that is how a checkpoint is removed.
        if (!(kind === 'manifest' && how === 'no file at all')) expect(log).toMatch(/model\.ckpt-2|manifest/);
      }
    },
  );
});

it('a place that returns wrong bytes of the right length is skipped', async () => {
  for (const { place } of cluster.disks.all) {
    cluster.log.length = 0;
    await cluster.set(77);
    cluster.disks.at(place).lies = (bytes) => Buffer.alloc(bytes.byteLength, 3);
    await chief.restoreNewest({ variables: cluster.variables });
    cluster.disks.at(place).lies = undefined;
    await replaced();
    expect(await cluster.step(), place).toBe(2);
  }
});

it('with the data of both checkpoints lost, nothing is restored and the error names the missing files', async () => {
  const data = (await cluster.blobs()).filter((name) => name.includes('.data-00001'));
  const paths = data
    .flatMap((name) => PLACES.map((place) => cluster.disks.path(place, name)))
    .filter(existsSync);
  const good = paths.map((path) => readFileSync(path));
  for (const path of paths) rmSync(path);
  await cluster.set(77);
  await expect(chief.restoreNewest({ variables: cluster.variables })).rejects.toMatchObject({
    code: 'SHOAL_UNREACHABLE',
    message: expect.stringMatching(/model\.ckpt-2.*data-00001.*model\.ckpt-1.*data-00001/s) as string,
  });
  expect(await cluster.step()).toBe(77);
  paths.forEach((path, i) => {
    writeFileSync(path, good[i]!);
  });
});

it('values of an abandoned checkpoint never overwrite those of the previous one', async () => {
  // One ps finds its data damaged at once; the other waits for its data, which is on another disk.
  const broken = blobs.find(({ kind }) => kind === 'data-00000')!;
  const slow = blobs.find(({ kind }) => kind === 'data-00001')!;
  const others = slow.places.filter((place) => place !== 'ps/1');
  const own = cluster.disks.path('ps/1', slow.name);
  const good = readFileSync(own);
  rmSync(own);
  let releaseReads = () => {};
  const released = new Promise<void>((resolve) => {
    releaseReads = resolve;
  });
  for (const place of others) {
    cluster.disks.at(place).onRead = (name) => (name === slow.name ? released : undefined);
  }
  const { step, log } = await restoredWith(broken.name, broken.places, (bytes) => flipped(bytes, 9));
  expect(step).toBe(1);
  expect(log).toMatch(/model\.ckpt-2 cannot be restored/);
  releaseReads();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect(await cluster.step()).toBe(1);
  writeFileSync(own, good);
  for (const place of others) cluster.disks.at(place).onRead = undefined;
});

it('a ps that is lost during a restore does not cause a fallback to an older checkpoint', async () => {
  const lost = new ShoalError('SHOAL_UNREACHABLE', 'ps/1 was lost');
  const failing = cluster.chief({
    owner: (name) =>
      name === 'ps/0' ? cluster.owner(name) : { ...stub, restore: () => Promise.reject(lost) },
  });
  await cluster.set(77);
  await expect(failing.restoreNewest({ variables: cluster.variables })).rejects.toBe(lost);
  await chief.restoreNewest({ variables: cluster.variables });
  expect(await cluster.step()).toBe(2);
});

const stub = {
  snapshot: () => Promise.reject(new Error('unexpected call')),
  write: () => Promise.reject(new Error('unexpected call')),
  drop: () => Promise.resolve(),
};
