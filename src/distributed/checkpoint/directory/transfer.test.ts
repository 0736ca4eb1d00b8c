import { mkdir, mkdtemp, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseCheckpointState } from '../../../tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { MemoryStore } from '../../store/memory-store.js';
import { fileBlob } from '../format/names.js';
import { CHUNK_BYTES, ShardImage } from '../format/shard-image.js';
import { listCheckpoints } from '../reading/catalog.js';
import { Disks } from '../testing/disks.js';
import { pullCheckpoint, pushCheckpoint } from './transfer.js';

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'shoal-transfer-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Writes a checkpoint of slightly more than one chunk. */
async function write(prefix: string): Promise<void> {
  const tensor = Tensor.of(Float32Array.from({ length: CHUNK_BYTES / 4 + 10 }, (_, i) => i) as never, {
    dtype: 'float32',
    shape: [CHUNK_BYTES / 4 + 10],
  });
  const variable = {
    key: 'w',
    resource: 'w',
    container: '',
    dtype: 'float32',
    shape: [...tensor.shape],
  } as const;
  const image = new ShardImage([{ variable: { ...variable, shape: [...variable.shape] }, tensor }]);
  const chunks: Uint8Array[] = [];
  for await (const chunk of image.source(0)) chunks.push(Buffer.from(chunk));
  await writeFile(join(dir, dataFile(prefix, 0, 1)), Buffer.concat(chunks));
  await writeFile(join(dir, indexFile(prefix)), writeIndexFile(image.sums().index));
  await writeFile(join(dir, `${prefix}.meta`), 'a graph');
}

const contents = async (directory: string) =>
  Object.fromEntries(
    await Promise.all(
      (await readdir(directory)).sort().map(async (file) => [file, await readFile(join(directory, file))]),
    ),
  ) as Record<string, Buffer>;

describe('a checkpoint', () => {
  it('is pushed to a store and pulled bit for bit', async () => {
    await write('model.ckpt-7');
    const store = new MemoryStore();
    const before = await contents(dir);
    const manifest = await pushCheckpoint(store, 'job', join(dir, 'model.ckpt-7'), { nowMs: 5 });
    expect(manifest).toMatchObject({ step: 7, sequence: 1, consistency: 'imported', shards: 1, tensors: 1 });
    expect(await listCheckpoints(store, 'job')).toEqual([manifest]);
    const other = join(dir, 'out');
    const progress: number[] = [];
    const path = await pullCheckpoint(store, 'job', manifest, other, {
      onProgress: (done, total) => progress.push(done / total),
    });
    expect(path).toBe(join(other, 'model.ckpt-7'));
    const { checkpoint, ...after } = await contents(other);
    expect(Object.keys(after)).toEqual(Object.keys(before));
    for (const [file, bytes] of Object.entries(after)) expect(bytes.equals(before[file]!), file).toBe(true);
    expect(parseCheckpointState(checkpoint!.toString('utf8')).modelCheckpointPath).toBe('model.ckpt-7');
    expect(progress.at(-1)).toBe(1);
  });

  it('is pulled completely or not at all', async () => {
    await write('m-1');
    using disks = new Disks(['ps/0', 'ps/1']);
    const store = disks.store('ps/0');
    const manifest = await pushCheckpoint(store, 'job', join(dir, 'm-1'));
    const blob = fileBlob('job', manifest, dataFile('m-1', 0, 1));
    const out = join(dir, 'out');
    await truncate(disks.path('ps/0', blob), CHUNK_BYTES + 1);
    await pullCheckpoint(store, 'job', manifest, out);
    expect((await readdir(out)).length).toBe(4);
    await rm(out, { recursive: true });
    await truncate(disks.path('ps/1', blob), CHUNK_BYTES + 1);
    await expect(pullCheckpoint(store, 'job', manifest, out)).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
    expect(await readdir(out)).toEqual([]);
  });

  it('removes old leftovers of pulls of other checkpoints', async () => {
    await write('m-1');
    using disks = new Disks(['ps/0']);
    const store = disks.store('ps/0');
    const manifest = await pushCheckpoint(store, 'job', join(dir, 'm-1'));
    const out = join(dir, 'out');
    await mkdir(out);
    for (const name of ['.pull-dead-m-0.index', '.pull-young-m-0.index'])
      await writeFile(join(out, name), 'half');
    const longAgo = Date.now() / 1000 - 2 * 86_400;
    await utimes(join(out, '.pull-dead-m-0.index'), longAgo, longAgo);
    await pullCheckpoint(store, 'job', manifest, out);
    expect((await readdir(out)).filter((name) => name.startsWith('.'))).toEqual(['.pull-young-m-0.index']);
  });

  it('that is only partially reachable is resumed by the next pull', async () => {
    await write('m-1');
    using disks = new Disks(['ps/0', 'ps/1']);
    const store = disks.store('ps/0');
    const manifest = await pushCheckpoint(store, 'job', join(dir, 'm-1'));
    const meta = fileBlob('job', manifest, 'm-1.meta');
    for (const place of ['ps/0', 'ps/1']) await rm(disks.path(place, meta));
    const out = join(dir, 'out');
    const lines: string[] = [];
    const first = pullCheckpoint(store, 'job', manifest, out, { log: (line) => lines.push(line) });
    await expect(first).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
    expect(lines.join()).toContain('resumes from them');
    const kept = join(out, (await readdir(out)).find((file) => file.includes('.data-'))!);
    const bytes = await readFile(kept);
    // Damages the partial file after its first chunk: the rest is fetched again.
    bytes[CHUNK_BYTES + 3]! ^= 1;
    await writeFile(kept, bytes);
    await disks.put('ps/1', meta, Buffer.from('a graph'));
    const progress: number[] = [];
    await pullCheckpoint(store, 'job', manifest, out, { onProgress: (done) => progress.push(done) });
    expect(progress[0]).toBe(CHUNK_BYTES + 40);
    expect((await readdir(out)).filter((file) => file.startsWith('.'))).toEqual([]);
    for (const file of manifest.files.map((entry) => entry.file))
      expect((await readFile(join(out, file))).equals(await readFile(join(dir, file))), file).toBe(true);
  });

  it('that is damaged in its directory is not pushed', async () => {
    await write('m-1');
    const store = new MemoryStore();
    await truncate(join(dir, dataFile('m-1', 0, 1)), 1000);
    await expect(pushCheckpoint(store, 'job', join(dir, 'm-1'))).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
    await write('m-1');
    const bytes = await readFile(join(dir, dataFile('m-1', 0, 1)));
    bytes[12_345]! ^= 4;
    await writeFile(join(dir, dataFile('m-1', 0, 1)), bytes);
    await expect(pushCheckpoint(store, 'job', join(dir, 'm-1'))).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
    await write('m-1');
    await truncate(join(dir, indexFile('m-1')), 20);
    await expect(pushCheckpoint(store, 'job', join(dir, 'm-1'))).rejects.toMatchObject({
      code: 'SHOAL_CORRUPT',
    });
    await rm(join(dir, indexFile('m-1')));
    await expect(pushCheckpoint(store, 'job', join(dir, 'm-1'))).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
    });
    expect(await listCheckpoints(store, 'job')).toEqual([]);
  });

  it('leaves nothing in the directory when the pull is aborted', async () => {
    await write('m-1');
    const store = new MemoryStore();
    const manifest = await pushCheckpoint(store, 'job', join(dir, 'm-1'));
    const stop = new AbortController();
    const out = join(dir, 'out');
    const pulling = pullCheckpoint(store, 'job', manifest, out, {
      signal: stop.signal,
      onProgress: () => stop.abort(new Error('stop')),
    });
    await expect(pulling).rejects.toThrow();
    expect(await readdir(out)).toEqual([]);
  });
});
