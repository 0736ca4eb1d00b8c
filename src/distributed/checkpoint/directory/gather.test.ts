import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { Checkpoints } from '../checkpoints.js';
import type { Manifest } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import { CHUNK_BYTES, ShardImage } from '../format/shard-image.js';
import { removeCheckpoint } from '../reading/catalog.js';
import { Disks } from '../testing/disks.js';
import { gatherCheckpoint } from './gather.js';
import { pullCheckpoint, pushCheckpoint } from './transfer.js';
import { CheckpointView } from './view.js';

const PREFIX = 'model.ckpt-7';
const DATA = dataFile(PREFIX, 0, 1);
let scratch: string;
let disks: Disks;
let before: Buffer;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-gather-'));
  disks = new Disks(['worker/0', 'ps/0', 'ps/1']);
});
afterEach(() => {
  disks[Symbol.dispose]();
  rmSync(scratch, { recursive: true, force: true });
});

const directory = () => join(scratch, 'checkpoints');
const data = () => join(directory(), DATA);
const own = () => new DirectoryStore(disks.at('worker/0').root);
/** What the chief, worker/0, sees. */
const view = () =>
  new CheckpointView({
    store: disks.store('worker/0'),
    namespace: 'job',
    directory: directory(),
    roots: [disks.at('worker/0').root],
  });

/** Saves a checkpoint of slightly more than a chunk on both ps; the chief has the index only. */
async function save(): Promise<Manifest> {
  const length = CHUNK_BYTES / 4 + 10;
  const values = Float32Array.from({ length }, (_, i) => i);
  const tensor = Tensor.of(values as never, { dtype: 'float32', shape: [length] });
  const variable = { key: 'w', resource: 'w', container: '', dtype: 'float32', shape: [length] } as const;
  const image = new ShardImage([{ variable: { ...variable, shape: [length] }, tensor }]);
  const chunks: Uint8Array[] = [];
  for await (const chunk of image.source(0)) chunks.push(Buffer.from(chunk));
  before = Buffer.concat(chunks);
  const saved = join(scratch, 'saved');
  await mkdir(saved);
  await writeFile(join(saved, DATA), before);
  await writeFile(join(saved, indexFile(PREFIX)), writeIndexFile(image.sums().index));
  const manifest = await pushCheckpoint(disks.store('ps/0'), 'job', join(saved, PREFIX));
  for (const place of ['worker/0', 'ps/0', 'ps/1'])
    if (place === 'worker/0') rmSync(disks.path(place, blobOf(manifest)), { force: true });
    else await disks.put(place, blobOf(manifest), before);
  await view().update([manifest]);
  return manifest;
}

const blobOf = (manifest: Manifest) => fileBlob('job', manifest, DATA);
const parts = () => ({ store: disks.store('worker/0'), namespace: 'job', view: view(), own: own() });
const leftovers = () =>
  readdirSync(directory()).filter((file) => file.startsWith('.') && file !== '.shoal-view');

describe('a checkpoint that is gathered', () => {
  test('is complete in the directory, is one more copy of its blobs, and is not copied twice', async () => {
    const manifest = await save();
    expect(existsSync(data())).toBe(false);
    const copied = await gatherCheckpoint(parts(), manifest);
    expect(copied).toEqual({ files: 1, bytes: before.byteLength });
    await view().update([manifest]);
    expect(readFileSync(data()).equals(before)).toBe(true);
    expect(existsSync(join(directory(), 'SHOAL-README.txt'))).toBe(false);
    expect(statSync(data()).nlink).toBe(2);
    expect(await disks.store('ps/0').locate(blobOf(manifest))).toContain('worker/0');
    expect(await gatherCheckpoint(parts(), manifest)).toEqual({ files: 0, bytes: 0 });
    await removeCheckpoint(disks.store('worker/0'), 'job', manifest);
    await view().update([]);
    expect(readdirSync(directory()).filter((file) => file.startsWith('model'))).toEqual([]);
  });

  test('is in the directory only, if blobs are on another file system, and is removed with the checkpoint', async () => {
    const manifest = await save();
    await gatherCheckpoint({ ...parts(), own: undefined }, manifest);
    await view().update([manifest]);
    expect(readFileSync(data()).equals(before)).toBe(true);
    expect(existsSync(join(directory(), 'SHOAL-README.txt'))).toBe(false);
    expect(await disks.store('ps/0').locate(blobOf(manifest))).not.toContain('worker/0');
    expect(await gatherCheckpoint({ ...parts(), own: undefined }, manifest)).toEqual({ files: 0, bytes: 0 });
    await view().update([]);
    expect(existsSync(data())).toBe(false);
  });

  test('has files that follow the umask, as those of a pull', async () => {
    const manifest = await save();
    const umask = process.umask(0o027);
    try {
      await gatherCheckpoint(parts(), manifest);
      await view().update([manifest]);
      expect(statSync(data()).mode & 0o777).toBe(0o640);
      rmSync(data());
      rmSync(disks.path('worker/0', blobOf(manifest)));
      await gatherCheckpoint({ ...parts(), own: undefined }, manifest);
      expect(statSync(data()).mode & 0o777).toBe(0o640);
      const out = join(scratch, 'out');
      await pullCheckpoint(disks.store('worker/0'), 'job', manifest, out);
      expect(statSync(out).mode & 0o777).toBe(0o750);
      for (const file of readdirSync(out)) expect(statSync(join(out, file)).mode & 0o777, file).toBe(0o640);
    } finally {
      process.umask(umask);
    }
  });

  test('is read from an undamaged copy', async () => {
    const manifest = await save();
    truncateSync(disks.path('ps/0', blobOf(manifest)), CHUNK_BYTES + 1);
    await gatherCheckpoint(parts(), manifest);
    await view().update([manifest]);
    expect(readFileSync(data()).equals(before)).toBe(true);
  });

  test.each([true, false])(
    'is complete or absent: the holders are lost during the copy (as a blob: %s)',
    async (isBlob) => {
      const manifest = await save();
      for (const place of ['ps/0', 'ps/1'])
        disks.at(place).onRead = () => {
          for (const other of ['ps/0', 'ps/1']) disks.at(other).isAway = true;
        };
      const gathering = gatherCheckpoint({ ...parts(), own: isBlob ? own() : undefined }, manifest);
      await expect(gathering).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
      expect([existsSync(data()), leftovers()]).toEqual([false, []]);
      expect(existsSync(disks.path('worker/0', blobOf(manifest)))).toBe(false);
    },
  );

  test('is left out if the disk has no space for it', async () => {
    const manifest = await save();
    const freeBytes = async () => before.byteLength - 1;
    await expect(gatherCheckpoint(parts(), manifest, { freeBytes })).rejects.toMatchObject({
      code: 'SHOAL_NO_SPACE',
      message: expect.stringMatching(/4\.2 MB are needed, and \S+ has 4\.2 MB free/) as string,
    });
    expect([existsSync(data()), leftovers()]).toEqual([false, []]);
  });

  test('leaves nothing behind if it is removed meanwhile', async () => {
    const manifest = await save();
    let isRemoved = false;
    disks.at('ps/0').onRead = async () => {
      if (isRemoved) return;
      isRemoved = true;
      await disks.store('worker/0').remove(`job/manifests/000000000001-7-${manifest.attempt}.json`);
    };
    disks.at('ps/1').onRead = disks.at('ps/0').onRead;
    await gatherCheckpoint(parts(), manifest);
    expect(isRemoved).toBe(true);
    expect(existsSync(disks.path('worker/0', blobOf(manifest)))).toBe(false);
  });

  test('is stopped by a signal, with a line that names the command for later', async () => {
    const manifest = await save();
    const lines: string[] = [];
    const checkpoints = new Checkpoints({
      store: disks.store('worker/0'),
      namespace: 'job',
      job: 'mnist',
      retention: { keep: 5 },
      directory: directory(),
      roots: [disks.at('worker/0').root],
      own: own(),
      now: Date.now,
      log: (line) => void lines.push(line),
      chief: { task: '', incarnation: 1 },
      owner: () => {
        throw new Error('no save');
      },
    });
    const stop = new AbortController();
    for (const place of ['ps/0', 'ps/1']) disks.at(place).onRead = () => stop.abort('SIGTERM');
    await checkpoints.gather('last', { signal: stop.signal });
    expect(lines).toEqual([
      expect.stringMatching(
        /^model\.ckpt-7 is saved, but not complete in \S+: training was stopped; .* `shoal checkpoint pull model\.ckpt-7 DIRECTORY --job mnist` /,
      ),
    ]);
    expect(existsSync(disks.path('worker/0', blobOf(manifest)))).toBe(false);
    for (const place of ['ps/0', 'ps/1']) disks.at(place).onRead = undefined;
    await checkpoints.gather('last');
    expect(lines.at(-1)).toMatch(/^model\.ckpt-7 is complete in \S+ \(1 file, 4\.2 MB copied\)$/);
    expect(readFileSync(data()).equals(before)).toBe(true);
  });
});
