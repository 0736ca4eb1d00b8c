/** Manifests that exist and can not be read are an error or passed over loudly, never a fresh start; and the input's state. */
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
import { crc32c } from '../../src/bytes/crc32c.js';
import type { Checkpoints } from '../../src/checkpoint/checkpoints.js';
import { encodeManifest, MAX_MANIFEST_BYTES, type Manifest } from '../../src/checkpoint/manifest.js';
import { fileBlob, manifestBlob } from '../../src/checkpoint/names.js';
import { repairCheckpoint } from '../../src/checkpoint/repair.js';
import { pullCheckpoint, pushCheckpoint } from '../../src/checkpoint/transfer.js';
import { damagedCopies, isSound, verifyCheckpoint } from '../../src/checkpoint/verify.js';
import { ShoalError } from '../../src/errors/errors.js';
import { Crew, PLACES } from './crew.js';

const INPUT = { version: 1, plan: { shards: [{ file: 'a', offset: 0, records: 3 }] }, consumed: 2 };

let crew: Crew;
let chief: Checkpoints;

beforeEach(() => {
  crew = new Crew();
  chief = crew.chief();
});
afterEach(() => crew[Symbol.asyncDispose]());

const restore = (checkpoints = chief) =>
  checkpoints.restoreNewest({ variables: crew.variables, readsInput: true });

/** Changes all copies of a blob. */
function change(blob: string, to: (bytes: Buffer) => Uint8Array, places: readonly string[] = PLACES): void {
  for (const path of places.map((place) => crew.disks.path(place, blob))) {
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

describe('a manifest that can not be read, and no other checkpoint', () => {
  it('since it is larger than its limit: an error, and nothing is initialised', async () => {
    const manifest = await crew.save(chief, 1);
    for (const place of PLACES)
      truncateSync(crew.disks.path(place, manifestOf(manifest)), MAX_MANIFEST_BYTES + 1);
    await expect(restore()).rejects.toMatchObject({
      code: 'SHOAL_UNSUPPORTED',
      message: expect.stringMatching(/larger than/) as string,
    });
  });

  it('since all copies are damaged: an error', async () => {
    const manifest = await crew.save(chief, 1);
    change(manifestOf(manifest), flipped);
    await expect(restore()).rejects.toThrow(/There are 1 checkpoints, and none can be restored.*sum/s);
  });

  it('since all copies give an error of the disk: an error', async () => {
    const manifest = await crew.save(chief, 1);
    for (const { broken } of crew.disks.all) broken.set(manifestOf(manifest), 'read');
    await expect(restore()).rejects.toThrow(/none can be restored.*EIO/s);
  });
});

describe('the newest of several', () => {
  it('in a newer format: an error that says which, instead of going back', async () => {
    await crew.save(chief, 1);
    const manifest = await crew.save(chief, 2);
    change(manifestOf(manifest), () => sealed({ ...manifest, version: 3, files: 'elsewhere' }));
    await crew.set(77);
    await expect(restore()).rejects.toMatchObject({
      code: 'SHOAL_UNSUPPORTED',
      message: expect.stringMatching(/version 3 .*reads versions up to 2/s) as string,
    });
    expect(await crew.step()).toBe(77);
  });

  it('damaged in all copies: the one before is restored, and the log says so', async () => {
    await crew.save(chief, 1);
    change(manifestOf(await crew.save(chief, 2)), flipped);
    crew.log.length = 0;
    await crew.set(77);
    expect((await restore())!.manifest.step).toBe(1);
    expect(await crew.step()).toBe(1);
    expect(crew.log.join('\n')).toMatch(/checkpoint of step 2 can not be restored: .*sum/);
  });

  it('readable: older ones in a newer format do no harm', async () => {
    const manifest = await crew.save(chief, 1);
    await crew.save(chief, 2);
    change(manifestOf(manifest), () => sealed({ ...manifest, version: 3 }));
    expect((await restore())!.manifest.step).toBe(2);
  });
});

describe('a manifest that nobody who has it can be asked for', () => {
  /** Two checkpoints; the manifest of the newer one is listed, and its copies can not be reached until `come`. */
  async function withoutHolders() {
    await crew.save(chief, 1);
    const name = manifestOf(await crew.save(chief, 2));
    rmSync(crew.disks.path('chief/0', name));
    let isAway = true;
    for (const disk of crew.disks.all)
      disk.onRead = (blob) => {
        if (isAway && blob === name) throw new ShoalError('SHOAL_UNREACHABLE', `${disk.place} is silent`);
      };
    await crew.set(77);
    return {
      come: () => {
        isAway = false;
      },
    };
  }

  it('is waited for, and restored when they are back', async () => {
    const { come } = await withoutHolders();
    const waits: (readonly string[])[] = [];
    const waitForHolders = async (places: readonly string[]) => {
      waits.push(places);
      if (waits.length === 2) come();
      return true;
    };
    expect((await restore(crew.chief({ waitForHolders })))!.manifest.step).toBe(2);
    expect(waits).toHaveLength(2);
    expect([...waits[0]!].sort()).toEqual(['ps/0', 'ps/1', 'worker/0']);
  });

  it('is passed over when they do not come', async () => {
    await withoutHolders();
    expect((await restore(crew.chief({ waitForHolders: async () => false })))!.manifest.step).toBe(1);
    expect(crew.log.join('\n')).toMatch(/checkpoint of step 2 can not be restored: .*is silent/);
  });
});

describe('the state of the input', () => {
  it('of 700,000 shards is saved, and restored as it was', { timeout: 300_000 }, async () => {
    const shards = Array.from({ length: 700_000 }, (_, i) => ({
      file: `/data/training/records-${String(i).padStart(7, '0')}-of-0700000.tfrecord`,
      offset: 0,
      records: 1000 + (i % 7),
      bytes: 123_456_789 + i,
    }));
    const manifest = await crew.save(chief, 1, { input: () => ({ ...INPUT, plan: { shards } }) });
    expect(manifest.files.find(({ file }) => file === manifest.inputFile)!.size).toBeGreaterThan(
      MAX_MANIFEST_BYTES,
    );
    const { input } = (await restore(crew.chief()))!;
    const found = (input as { plan: { shards: typeof shards } }).plan.shards;
    expect(found.length).toBe(shards.length);
    expect(found.at(-1)).toEqual(shards.at(-1));
    expect(JSON.stringify(found) === JSON.stringify(shards)).toBe(true);
  });

  it('damaged in one copy comes from another, and the copy is replaced', async () => {
    const manifest = await crew.save(chief, 1, { input: () => INPUT });
    const good = readFileSync(crew.disks.path('chief/0', inputOf(manifest)));
    change(inputOf(manifest), flipped, ['chief/0']);
    expect((await restore())!.input).toEqual(INPUT);
    const isGood = () => readFileSync(crew.disks.path('chief/0', inputOf(manifest))).equals(good);
    await expect.poll(isGood, { timeout: 120_000 }).toBe(true);
  });

  it('lost: the checkpoint before is restored, loudly; who needs no input restores this one', async () => {
    await crew.save(chief, 1, { input: () => ({ ...INPUT, consumed: 1 }) });
    const manifest = await crew.save(chief, 2, { input: () => INPUT });
    change(inputOf(manifest), flipped);
    expect(await restore()).toMatchObject({ manifest: { step: 1 }, input: { consumed: 1 } });
    expect(crew.log.join('\n')).toMatch(/model\.ckpt-2 can not be restored: .*\.input/);
    const report = await chief.restoreNewest({ variables: crew.variables });
    expect(report!.manifest.step).toBe(2);
  });

  it('of another checkpoint is not taken', async () => {
    const first = await crew.save(chief, 1, { input: () => ({ ...INPUT, consumed: 1 }) });
    const manifest = await crew.save(chief, 2, { input: () => INPUT });
    const other = readFileSync(crew.disks.path('chief/0', inputOf(first)));
    const entry = first.files.find(({ file }) => file === first.inputFile)!;
    const files = manifest.files.map((one) =>
      one.file === manifest.inputFile ? { ...entry, file: one.file } : one,
    );
    change(inputOf(manifest), () => other);
    change(manifestOf(manifest), () => encodeManifest({ ...manifest, files }));
    expect((await restore(crew.chief()))!.manifest.step).toBe(1);
    expect(crew.log.join('\n')).toMatch(/belongs to another checkpoint/);
  });

  it('inline, as version 1 of the format has it, is read', async () => {
    const manifest = await crew.save(chief, 1);
    expect(manifest.version).toBe(1);
    change(manifestOf(manifest), () => encodeManifest({ ...manifest, input: INPUT }));
    expect((await restore(crew.chief()))!.input).toEqual(INPUT);
  });

  it('goes with the checkpoint', async () => {
    const one = crew.chief({ retention: { keep: 1 } });
    for (const step of [1, 2]) await crew.save(one, step, { input: () => INPUT });
    const left = (await crew.blobs()).filter((name) => name.endsWith('.input'));
    expect(left).toEqual([expect.stringContaining('model.ckpt-2.input')]);
  });

  it('is verified and repaired with the checkpoint', async () => {
    const manifest = await crew.save(chief, 1, { input: () => INPUT });
    const store = crew.disks.store('chief/0');
    change(inputOf(manifest), flipped, ['ps/0']);
    rmSync(crew.disks.path('ps/1', inputOf(manifest)));
    const [listed] = await chief.list();
    const found = await verifyCheckpoint(store, 'job', listed!);
    expect(damagedCopies(found)).toMatchObject([{ file: 'model.ckpt-1.input', place: 'ps/0' }]);
    const places = PLACES.map((place) => ({ place, host: place, alive: true }));
    const { actions } = await repairCheckpoint(store, 'job', found, { places });
    expect(actions.map(({ type, place }) => `${type} ${place}`).sort()).toEqual(['add ps/1', 'replace ps/0']);
    expect(isSound(await verifyCheckpoint(store, 'job', listed!))).toBe(true);
  });

  it('is pulled with the checkpoint, and pushed with it, unless the checkpoint beside it is another', async () => {
    const manifest = await crew.save(chief, 1, { input: () => INPUT });
    const store = crew.disks.store('chief/0');
    const directory = mkdtempSync(join(tmpdir(), 'shoal-pulled-'));
    try {
      const path = await pullCheckpoint(store, 'job', manifest, directory);
      expect(readdirSync(directory)).toContain('model.ckpt-1.input');
      await pushCheckpoint(store, 'job', path);
      const report = (await restore(crew.chief()))!;
      expect(report).toMatchObject({ manifest: { consistency: 'imported', version: 2 }, input: INPUT });

      const other = await crew.save(chief, 2, { input: () => INPUT, basename: 'other' });
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

it('a manifest that could not be read back is not saved', async () => {
  let long = 'x'.repeat(MAX_MANIFEST_BYTES);
  const boastful = crew.chief({
    owner: (name) => {
      const owner = crew.owner(name);
      return {
        snapshot: (...given) => owner.snapshot(...given),
        drop: (...given) => owner.drop(...given),
        restore: (...given) => owner.restore(...given),
        write: async (...given) => {
          const written = await owner.write(...given);
          return { ...written, file: { ...written.file, places: [...written.file.places, long] } };
        },
      };
    },
  });
  await expect(crew.save(boastful, 1)).rejects.toThrow(/manifest of model.ckpt-1 has \d+ bytes; at most/);
  expect(await boastful.survey()).toMatchObject({ manifests: [], unreadable: [] });
  long = 'x';
  await crew.save(boastful, 2);
  expect((await crew.blobs()).filter((name) => name.includes('model.ckpt-1'))).toEqual([]);
});
