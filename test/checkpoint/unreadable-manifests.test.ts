/** An unreadable manifest is an error or is skipped with a log line, never a fresh start. Also: the input state. */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crc32c } from '../../src/base/bytes/crc32c.js';
import { ShoalError } from '../../src/base/errors/errors.js';
import type { Checkpoints } from '../../src/distributed/checkpoint/checkpoints.js';
import { pullCheckpoint, pushCheckpoint } from '../../src/distributed/checkpoint/directory/transfer.js';
import {
  encodeManifest,
  MAX_MANIFEST_BYTES,
  type Manifest,
} from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob, manifestBlob } from '../../src/distributed/checkpoint/format/names.js';
import { repairCheckpoint } from '../../src/distributed/checkpoint/maintenance/repair.js';
import {
  damagedCopies,
  isUndamaged,
  verifyCheckpoint,
} from '../../src/distributed/checkpoint/maintenance/verify.js';
import { described } from '../described.js';
import { PLACES, TestCluster } from './test-cluster.js';

const INPUT = { version: 1, plan: { shards: [{ file: 'a', offset: 0, records: 3 }] }, consumed: 2 };

let cluster: TestCluster;
let chief: Checkpoints;

beforeEach(() => {
  cluster = new TestCluster();
  chief = cluster.chief();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const restore = (checkpoints = chief) =>
  checkpoints.restoreNewest({ variables: cluster.variables, readsInput: true });

/** Changes the copies of a blob at the given places (default: all). */
function change(blob: string, to: (bytes: Buffer) => Uint8Array, places: readonly string[] = PLACES): void {
  for (const path of places.map((place) => cluster.disks.path(place, blob))) {
    if (existsSync(path)) writeFileSync(path, to(readFileSync(path)));
  }
}

const flipped = (bytes: Buffer): Buffer => {
  bytes[bytes.length >> 1]! ^= 0x40;
  return bytes;
};

const sealed = (value: object): Buffer => {
  const line = Buffer.from(JSON.stringify(value));
  return Buffer.concat([line, Buffer.from(`\n${crc32c(line).toString(16).padStart(8, '0')}\n`)]);
};

const manifestOf = (manifest: Manifest) => manifestBlob('job', manifest);
const inputOf = (manifest: Manifest) => fileBlob('job', manifest, `${manifest.prefix}.input`);

describe('an unreadable manifest, and no other checkpoint', () => {
  it('larger than the limit: an error, and nothing is initialized', async () => {
    const manifest = await cluster.save(chief, 1);
    for (const place of PLACES)
      truncateSync(cluster.disks.path(place, manifestOf(manifest)), MAX_MANIFEST_BYTES + 1);
    await expect(restore()).rejects.toMatchObject({
      code: 'SHOAL_UNSUPPORTED',
      message: expect.stringMatching(/larger than/) as string,
    });
  });

  it('damaged in all copies: an error', async () => {
    const manifest = await cluster.save(chief, 1);
    change(manifestOf(manifest), flipped);
    await expect(restore()).rejects.toThrow(
      described(/There are 1 checkpoints, and none can be restored.*sum/s),
    );
  });

  it('with a disk error for every copy: an error', async () => {
    const manifest = await cluster.save(chief, 1);
    for (const { broken } of cluster.disks.all) broken.set(manifestOf(manifest), 'read');
    await expect(restore()).rejects.toThrow(described(/none can be restored.*EIO/s));
  });
});

describe('the newest of several', () => {
  it('in a newer format: an error that names the version, and no fallback', async () => {
    await cluster.save(chief, 1);
    const manifest = await cluster.save(chief, 2);
    change(manifestOf(manifest), () =>
      sealed({ ...manifest, version: 3, release: '9.0.0', files: 'elsewhere' }),
    );
    await cluster.set(77);
    await expect(restore()).rejects.toMatchObject({
      code: 'SHOAL_VERSION_MISMATCH',
      message: expect.stringMatching(
        /Shoal 9\.0\.0 saved .* with version 3 of .*; this is Shoal [\d.]+, which reads versions 1 to 2/s,
      ) as string,
    });
    expect(await cluster.step()).toBe(77);
  });

  it('in a newer format: repair, retention and the sweep leave it and its files unchanged', async () => {
    const one = cluster.chief({ retention: { keep: 1 } });
    const manifest = await cluster.save(one, 1, { input: () => INPUT });
    const newer = sealed({ ...manifest, version: 3, release: '9.0.0', files: 'elsewhere' });
    change(manifestOf(manifest), () => newer);
    const blobs = async () => (await cluster.blobs()).filter((name) => name.includes('model.ckpt-1'));
    const before = await blobs();
    // A chief of the next incarnation sweeps what earlier ones have left; the store does so hourly.
    const next = cluster.chief({ retention: { keep: 1 }, incarnation: manifest.chief.incarnation + 1 });
    for (const step of [2, 3, 4]) await cluster.save(next, step);
    await cluster.disks.store('chief/0').sweep();
    expect(await blobs()).toEqual(before);
    for (const place of PLACES)
      expect(readFileSync(cluster.disks.path(place, manifestOf(manifest))).equals(newer), place).toBe(true);
    expect((await next.list()).map(({ step }) => step)).toEqual([4]);
    const { unreadable, damaged } = await next.survey();
    expect(damaged).toEqual([]);
    expect(unreadable).toMatchObject([{ step: 1, error: { code: 'SHOAL_VERSION_MISMATCH' } }]);
  });

  it('damaged in all copies: the previous one is restored, and this is logged', async () => {
    await cluster.save(chief, 1);
    change(manifestOf(await cluster.save(chief, 2)), flipped);
    cluster.log.length = 0;
    await cluster.set(77);
    expect((await restore())!.manifest.step).toBe(1);
    expect(await cluster.step()).toBe(1);
    expect(cluster.log.join('\n')).toMatch(/checkpoint of step 2 cannot be restored: .*sum/);
  });

  it('readable: older ones in a newer format are ignored', async () => {
    const manifest = await cluster.save(chief, 1);
    await cluster.save(chief, 2);
    change(manifestOf(manifest), () => sealed({ ...manifest, version: 3 }));
    expect((await restore())!.manifest.step).toBe(2);
  });
});

describe('a manifest whose holders are all unreachable', () => {
  /** Two checkpoints; the manifest of the newer one is listed, but its copies are unreachable until `reconnect`. */
  async function withoutHolders() {
    await cluster.save(chief, 1);
    const name = manifestOf(await cluster.save(chief, 2));
    rmSync(cluster.disks.path('chief/0', name));
    let isOffline = true;
    for (const disk of cluster.disks.all)
      disk.onRead = (blob) => {
        if (isOffline && blob === name) throw new ShoalError('SHOAL_UNREACHABLE', `${disk.place} is silent`);
      };
    await cluster.set(77);
    return {
      reconnect: () => {
        isOffline = false;
      },
    };
  }

  it('is restored when they are back', async () => {
    const { reconnect } = await withoutHolders();
    const waits: (readonly string[])[] = [];
    const waitForHolders = async (places: readonly string[]) => {
      waits.push(places);
      if (waits.length === 2) reconnect();
      return true;
    };
    expect((await restore(cluster.chief({ waitForHolders })))!.manifest.step).toBe(2);
    expect(waits).toHaveLength(2);
    expect([...waits[0]!].sort()).toEqual(['ps/0', 'ps/1', 'worker/0']);
  });

  it('is skipped when they do not come back', async () => {
    await withoutHolders();
    expect((await restore(cluster.chief({ waitForHolders: async () => false })))!.manifest.step).toBe(1);
    expect(cluster.log.join('\n')).toMatch(/checkpoint of step 2 cannot be restored: .*is silent/);
  });
});

describe('the input state', () => {
  it('of 700,000 shards is saved and restored unchanged', { timeout: 300_000 }, async () => {
    const shards = Array.from({ length: 700_000 }, (_, i) => ({
      file: `/data/training/records-${String(i).padStart(7, '0')}-of-0700000.tfrecord`,
      offset: 0,
      records: 1000 + (i % 7),
      bytes: 123_456_789 + i,
    }));
    const manifest = await cluster.save(chief, 1, { input: () => ({ ...INPUT, plan: { shards } }) });
    expect(manifest.files.find(({ file }) => file === manifest.inputFile)!.size).toBeGreaterThan(
      MAX_MANIFEST_BYTES,
    );
    const { input } = (await restore(cluster.chief()))!;
    const found = (input as { plan: { shards: typeof shards } }).plan.shards;
    expect(found.length).toBe(shards.length);
    expect(found.at(-1)).toEqual(shards.at(-1));
    expect(JSON.stringify(found) === JSON.stringify(shards)).toBe(true);
  });

  it('damaged in one copy is read from another, and the copy is replaced', async () => {
    const manifest = await cluster.save(chief, 1, { input: () => INPUT });
    const good = readFileSync(cluster.disks.path('chief/0', inputOf(manifest)));
    change(inputOf(manifest), flipped, ['chief/0']);
    expect((await restore())!.input).toEqual(INPUT);
    const isGood = () => readFileSync(cluster.disks.path('chief/0', inputOf(manifest))).equals(good);
    await expect.poll(isGood, { timeout: 120_000 }).toBe(true);
  });

  it('lost: the previous checkpoint is restored and this is logged; a restore without input uses this one', async () => {
    await cluster.save(chief, 1, { input: () => ({ ...INPUT, consumed: 1 }) });
    const manifest = await cluster.save(chief, 2, { input: () => INPUT });
    change(inputOf(manifest), flipped);
    expect(await restore()).toMatchObject({ manifest: { step: 1 }, input: { consumed: 1 } });
    expect(cluster.log.join('\n')).toMatch(/model\.ckpt-2 cannot be restored: .*\.input/);
    const report = await chief.restoreNewest({ variables: cluster.variables });
    expect(report!.manifest.step).toBe(2);
  });

  it('of another checkpoint is rejected', async () => {
    const first = await cluster.save(chief, 1, { input: () => ({ ...INPUT, consumed: 1 }) });
    const manifest = await cluster.save(chief, 2, { input: () => INPUT });
    const other = readFileSync(cluster.disks.path('chief/0', inputOf(first)));
    const entry = first.files.find(({ file }) => file === first.inputFile)!;
    const files = manifest.files.map((one) =>
      one.file === manifest.inputFile ? { ...entry, file: one.file } : one,
    );
    change(inputOf(manifest), () => other);
    change(manifestOf(manifest), () => encodeManifest({ ...manifest, files }));
    expect((await restore(cluster.chief()))!.manifest.step).toBe(1);
    expect(cluster.log.join('\n')).toMatch(/belongs to another checkpoint/);
  });

  it('stored inline, as in version 1 of the format, is read', async () => {
    const manifest = await cluster.save(chief, 1);
    expect(manifest.version).toBe(1);
    change(manifestOf(manifest), () => encodeManifest({ ...manifest, input: INPUT }));
    expect((await restore(cluster.chief()))!.input).toEqual(INPUT);
  });

  it('is removed with the checkpoint', async () => {
    const one = cluster.chief({ retention: { keep: 1 } });
    for (const step of [1, 2]) await cluster.save(one, step, { input: () => INPUT });
    const left = (await cluster.blobs()).filter((name) => name.endsWith('.input'));
    expect(left).toEqual([expect.stringContaining('model.ckpt-2.input')]);
  });

  it('is verified and repaired with the checkpoint', async () => {
    const manifest = await cluster.save(chief, 1, { input: () => INPUT });
    const store = cluster.disks.store('chief/0');
    change(inputOf(manifest), flipped, ['ps/0']);
    rmSync(cluster.disks.path('ps/1', inputOf(manifest)));
    const [listed] = await chief.list();
    const found = await verifyCheckpoint(store, 'job', listed!);
    expect(damagedCopies(found)).toMatchObject([{ file: 'model.ckpt-1.input', place: 'ps/0' }]);
    const places = PLACES.map((place) => ({ place, host: place, alive: true }));
    const { actions } = await repairCheckpoint(store, 'job', found, { places });
    expect(actions.map(({ type, place }) => `${type} ${place}`).sort()).toEqual(['add ps/1', 'replace ps/0']);
    expect(isUndamaged(await verifyCheckpoint(store, 'job', listed!))).toBe(true);
  });

  it('is pulled and pushed with its checkpoint, and not with another one', async () => {
    const manifest = await cluster.save(chief, 1, { input: () => INPUT });
    const store = cluster.disks.store('chief/0');
    const directory = mkdtempSync(join(tmpdir(), 'shoal-pulled-'));
    try {
      const path = await pullCheckpoint(store, 'job', manifest, directory);
      expect(readdirSync(directory)).toContain('model.ckpt-1.input');
      await pushCheckpoint(store, 'job', path);
      const report = (await restore(cluster.chief()))!;
      expect(report).toMatchObject({ manifest: { consistency: 'imported', version: 2 }, input: INPUT });

      const other = await cluster.save(chief, 2, { input: () => INPUT, basename: 'other' });
      await pullCheckpoint(store, 'job', other, directory);
      writeFileSync(join(directory, 'other-2.input'), readFileSync(join(directory, 'model.ckpt-1.input')));
      const lines: string[] = [];
      const pushed = await pushCheckpoint(store, 'job', join(directory, 'other-2'), {
        log: (line) => lines.push(line),
      });
      expect(pushed).toMatchObject({ version: 1, input: null });
      expect(lines).toEqual([expect.stringContaining('belongs to another checkpoint')]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

it('a manifest that is too large to be read back is not saved', async () => {
  let long = 'x'.repeat(MAX_MANIFEST_BYTES);
  const oversized = cluster.chief({
    owner: (name) =>
      cluster.ownerWith(name, (owner) => ({
        write: async (...given) => {
          const written = await owner.write(...given);
          return { ...written, file: { ...written.file, places: [...written.file.places, long] } };
        },
      })),
  });
  await expect(cluster.save(oversized, 1)).rejects.toThrow(
    /manifest of model.ckpt-1 has \d+ bytes; the limit is/,
  );
  expect(await oversized.survey()).toMatchObject({ manifests: [], unreadable: [] });
  long = 'x';
  await cluster.save(oversized, 2);
  expect((await cluster.blobs()).filter((name) => name.includes('model.ckpt-1'))).toEqual([]);
});
