/** A disk that fails to read a copy: other copies are used, and the bad one is replaced. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Checkpoints } from '../../src/distributed/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob, manifestBlob } from '../../src/distributed/checkpoint/format/names.js';
import { isUndamaged, verifyCheckpoint } from '../../src/distributed/checkpoint/maintenance/verify.js';
import { replaceDamaged } from '../../src/distributed/checkpoint/reading/replace-damaged.js';
import { PLACES, TestCluster } from './test-cluster.js';

const KINDS = ['data-00000-of-00002', 'data-00001-of-00002', 'index', 'input', 'manifest'];
const INPUT = { epoch: 3, files: ['a', 'b'] };

let cluster: TestCluster;
let chief: Checkpoints;
let second: Manifest;

beforeEach(async () => {
  cluster = new TestCluster();
  chief = cluster.chief();
  await cluster.save(chief, 1);
  await cluster.save(chief, 2, { input: () => INPUT });
  second = (await chief.list())[0]!;
  cluster.log.length = 0;
  await cluster.set(77);
});
afterEach(() => cluster[Symbol.asyncDispose]());

const blobOf = (kind: string) =>
  kind === 'manifest' ? manifestBlob('job', second) : fileBlob('job', second, `model.ckpt-2.${kind}`);
const holdersOf = (blob: string) => PLACES.filter((place) => existsSync(cluster.disks.path(place, blob)));
/** The task that reads its own copy first. */
const readerOf = (kind: string) => /data-0000(\d)/.exec(kind)?.[1]?.replace(/^/, 'ps/') ?? 'chief/0';
const restore = () => chief.restoreNewest({ variables: cluster.variables, readsInput: true });

describe.each(KINDS)('EIO from the local copy of the %s', (kind) => {
  it('on read: another copy is used, the bad one is logged and replaced', async () => {
    const [blob, place] = [blobOf(kind), readerOf(kind)];
    const { broken } = cluster.disks.at(place);
    expect(holdersOf(blob)).toContain(place);
    broken.set(blob, 'read');
    expect(await restore()).toMatchObject({ manifest: second, input: INPUT });
    expect(await cluster.step()).toBe(2);
    await expect.poll(() => broken.has(blob), { timeout: 120_000 }).toBe(false);
    expect(isUndamaged(await verifyCheckpoint(cluster.disks.store('chief/0'), 'job', second))).toBe(true);
    if (place !== 'chief/0') return;
    await expect
      .poll(() => cluster.log.join('\n'))
      .toMatch(/skipped: EIO[\s\S]*damaged copy of .* at chief\/0 was replaced by a copy from /);
  });

  it('on lookup: another copy is used', async () => {
    cluster.disks.at(readerOf(kind)).broken.set(blobOf(kind), 'look');
    expect(await restore()).toMatchObject({ manifest: second, input: INPUT });
    expect(await cluster.step()).toBe(2);
  });

  it('and from all other copies: the previous checkpoint is restored, and the log states the reason', async () => {
    const blob = blobOf(kind);
    for (const place of holdersOf(blob)) cluster.disks.at(place).broken.set(blob, 'read');
    await restore();
    expect(await cluster.step()).toBe(1);
    expect(cluster.log.join('\n')).toMatch(/cannot be restored: .*EIO/s);
  });
});

it('damaged copies are left unchanged when no copy is fully intact', async () => {
  const blob = blobOf('data-00000-of-00002');
  const { crc32c } = second.files.find(({ file }) => blob.endsWith(file))!;
  const places = holdersOf(blob);
  const damage = Buffer.from('each copy may be partly intact');
  for (const place of places) writeFileSync(cluster.disks.path(place, blob), damage);
  const lines: string[] = [];
  await replaceDamaged(cluster.disks.store('chief/0'), [{ blob, place: places[0]!, crc32c }], {
    log: (line) => lines.push(line),
  });
  expect(lines).toEqual([expect.stringMatching(/could not be replaced: no other copy is undamaged/)]);
  for (const place of places) expect(readFileSync(cluster.disks.path(place, blob))).toEqual(damage);
});

it('EMFILE fails the restore and does not fall back to an older checkpoint', async () => {
  const exhausted = Object.assign(new Error('EMFILE: too many open files'), {
    code: 'EMFILE',
    syscall: 'open',
  });
  for (const { place } of cluster.disks.all) {
    cluster.disks.at(place).onRead = (name) =>
      name.includes('.index') ? Promise.reject(exhausted) : undefined;
  }
  cluster.disks.at('chief/0').broken.set(blobOf('index'), 'read');
  // The local disk fails with EIO, all others with EMFILE.
  await expect(restore()).rejects.toBe(exhausted);
  expect(await cluster.step()).toBe(77);
});
