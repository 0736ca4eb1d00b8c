/** A checkpoint on three disks with several kinds of damage: verification reports it, repair fixes it. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import { mergeBundleIndexes } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { BundleShardWriter } from '../../../tensorflow/formats/tensor-bundle/shard-writer.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { directoryBlobs } from '../../store/peers/directory-blobs.js';
import { OutsideStore } from '../../store/peers/outside-store.js';
import type { PeerMember } from '../../store/peers/peers.js';
import { pullCheckpoint, pushCheckpoint } from '../directory/transfer.js';
import { encodeManifest, type Manifest, manifestFile } from '../format/manifest.js';
import { fileBlob, manifestBlob } from '../format/names.js';
import { CHUNK_BYTES } from '../format/shard-image.js';
import { healthOf, listCheckpoints } from '../reading/catalog.js';
import { repairCheckpoint } from './repair.js';
import { damagedCopies, isUndamaged, lostFiles, verifyCheckpoint } from './verify.js';

const PREFIX = 'model.ckpt-7';
const PLACES = ['ps/0', 'ps/1', 'ps/2'] as const;
const SHARD = dataFile(PREFIX, 0, 2);
const OTHER = dataFile(PREFIX, 1, 2);

let scratch: string;
let original: string;
let manifest: Manifest;
let disks: string;

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-repair-'));
  original = join(scratch, 'original');
  mkdirSync(original);
  await writeBundle(original);
  disks = join(scratch, 'saved');
  manifest = await pushCheckpoint(storeOn(disks), 'job', join(original, PREFIX), { nowMs: 1 });
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

beforeEach(() => {
  const mine = join(scratch, 'mine');
  cpSync(join(scratch, 'saved'), mine, { recursive: true });
  disks = mine;
});

afterEach(() => rmSync(join(scratch, 'mine'), { recursive: true, force: true }));

/** Two shards: one of three chunks, and a small one. */
async function writeBundle(directory: string): Promise<void> {
  const sizes = [2 * CHUNK_BYTES + 1000, 4000];
  const parts = [];
  for (const [shard, size] of sizes.entries()) {
    const chunks: Uint8Array[] = [];
    const writer = new BundleShardWriter({
      write: (chunk) => {
        chunks.push(Uint8Array.from(chunk));
      },
    });
    const bytes = Uint8Array.from({ length: size }, (_, i) => (i * 31 + shard) & 0xff);
    await writer.add(`t${shard}`, { dtype: DataType.DT_FLOAT, shape: [size / 4] }, bytes);
    parts.push((await writer.finish()).index);
    writeFileSync(join(directory, dataFile(PREFIX, shard, 2)), Buffer.concat(chunks));
  }
  writeFileSync(join(directory, indexFile(PREFIX)), writeIndexFile(mergeBundleIndexes(parts)));
}

function members(hosts: Readonly<Record<string, string>> = {}): readonly PeerMember[] {
  return PLACES.map((place) => ({ place, host: hosts[place] ?? place, alive: true }));
}

const rootOf = (root: string, place: string) => join(root, place.replace('/', '-'));

function storeOn(root: string, replicas = 1): OutsideStore {
  return new OutsideStore({
    places: {
      members: () => members(),
      blobs: (place) => directoryBlobs(new DirectoryStore(rootOf(root, place))),
    },
    nearest: 'ps/0',
    replicas,
  });
}

const pathAt = (place: string, file: string) =>
  join(
    rootOf(disks, place),
    file === 'manifest' ? manifestBlob('job', manifest) : fileBlob('job', manifest, file),
  );
const holdersOf = (file: string) => PLACES.filter((place) => existsSync(pathAt(place, file)));
const placesOf = (file: string) => manifest.files.find((entry) => entry.file === file)!.places as string[];

function flip(place: string, file: string, at: number): void {
  const bytes = readFileSync(pathAt(place, file));
  bytes[at]! ^= 4;
  writeFileSync(pathAt(place, file), bytes);
}

const verify = (options = {}) => verifyCheckpoint(storeOn(disks), 'job', manifest, options);

async function repair(options: { dryRun?: boolean; replicas?: number; places?: readonly PeerMember[] } = {}) {
  const found = await verify({ quick: true });
  return repairCheckpoint(storeOn(disks, options.replicas), 'job', found, { places: members(), ...options });
}

async function expectWhole(): Promise<void> {
  const report = await verify();
  expect(damagedCopies(report)).toEqual([]);
  expect(isUndamaged(report)).toBe(true);
  for (const { file, copies } of report.files) {
    const expected = readFileSync(join(original, file));
    for (const { place } of copies) expect(readFileSync(pathAt(place, file)).equals(expected)).toBe(true);
  }
}

describe('verification', () => {
  test('reads every copy and reports no damage for an intact checkpoint', async () => {
    const seen: number[] = [];
    const report = await verify({ onProgress: (done: number) => seen.push(done) });
    expect(isUndamaged(report)).toBe(true);
    expect(report.files.map(({ copies }) => copies.length)).toEqual([2, 2, 3]);
    const bytes = report.files.reduce((sum, { size, copies }) => sum + size * copies.length, 0);
    expect(report.bytesRead).toBe(bytes);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });

  test('names the copy and the bytes of a flipped bit', async () => {
    const [place] = placesOf(SHARD);
    flip(place!, SHARD, CHUNK_BYTES + 5);
    expect(damagedCopies(await verify())).toEqual([
      { file: SHARD, place, problem: `is damaged in bytes [${CHUNK_BYTES}, ${2 * CHUNK_BYTES})` },
    ]);
    expect(damagedCopies(await verify({ quick: true }))).toEqual([
      { file: SHARD, place, problem: 'has a wrong checksum' },
    ]);
  });

  test.each([
    ['shorter', -1],
    ['longer', 1],
  ])('names a copy that is %s', async (_, by) => {
    const [place] = placesOf(OTHER);
    truncateSync(pathAt(place!, OTHER), 4000 + by);
    const problem = `has ${4000 + by} bytes instead of 4000`;
    expect(damagedCopies(await verify())).toEqual([{ file: OTHER, place, problem }]);
    expect(damagedCopies(await verify({ quick: true }))).toEqual([{ file: OTHER, place, problem }]);
  });

  test('names a damaged manifest, and finds the checkpoint by another copy', async () => {
    truncateSync(pathAt('ps/0', 'manifest'), 100);
    expect(await listCheckpoints(storeOn(disks), 'job')).toEqual([manifest]);
    expect(damagedCopies(await verify())).toMatchObject([{ file: 'manifest', place: 'ps/0' }]);
  });

  test('reports a tensor that does not match its checksum although every copy matches the manifest', async () => {
    const bytes = readFileSync(join(original, OTHER));
    bytes[100]! ^= 1;
    const wrong = manifestFile(OTHER, bytes, placesOf(OTHER));
    const files = manifest.files.map((entry) => (entry.file === OTHER ? wrong : entry));
    for (const place of placesOf(OTHER)) writeFileSync(pathAt(place, OTHER), bytes);
    for (const place of PLACES) {
      writeFileSync(pathAt(place, 'manifest'), encodeManifest({ ...manifest, files }));
    }
    const report = await verifyCheckpoint(storeOn(disks), 'job', { ...manifest, files });
    expect(damagedCopies(report)).toEqual([]);
    expect(report.problems).toEqual([expect.stringMatching(/^t1: .*does not match its checksum/)]);
    expect(isUndamaged(report)).toBe(false);
  });

  test('reports a file without any copy', async () => {
    for (const place of placesOf(OTHER)) rmSync(pathAt(place, OTHER));
    const report = await verify();
    expect(lostFiles(report)).toEqual([OTHER]);
    expect(isUndamaged(report)).toBe(false);
  });

  test('a truncated copy with the latest time does not hide the good one', async () => {
    const [first, second] = placesOf(OTHER);
    truncateSync(pathAt(first!, OTHER), 10);
    const { files, missing } = await healthOf(storeOn(disks), 'job', manifest);
    expect(missing).toEqual([]);
    expect(files.find(({ entry }) => entry.file === OTHER)!.places).toEqual([second]);
  });
});

describe('repair', () => {
  test('does nothing if nothing is damaged', async () => {
    expect(await repair()).toMatchObject({ actions: [], lost: [], shortfall: 0 });
  });

  test('replaces a damaged copy in place', async () => {
    const [place] = placesOf(SHARD);
    flip(place!, SHARD, 3);
    const { actions } = await repair();
    expect(actions).toMatchObject([{ type: 'replace', file: SHARD, place }]);
    await expectWhole();
    expect(holdersOf(SHARD)).toEqual([...placesOf(SHARD)].sort());
  });

  test('a dry run reports the same and changes nothing', async () => {
    const [place] = placesOf(SHARD);
    flip(place!, SHARD, 3);
    rmSync(pathAt('ps/1', indexFile(PREFIX)));
    const { actions } = await repair({ dryRun: true });
    expect(damagedCopies(await verify())).toHaveLength(1);
    expect(existsSync(pathAt('ps/1', indexFile(PREFIX)))).toBe(false);
    expect((await repair()).actions).toEqual(actions);
  });

  test('copies the shards of a lost disk to others, and index and manifest to all', async () => {
    rmSync(rootOf(disks, 'ps/1'), { recursive: true });
    const { shortfall, lost } = await repair();
    expect({ shortfall, lost }).toEqual({ shortfall: 0, lost: [] });
    for (const file of [SHARD, OTHER]) expect(holdersOf(file)).toHaveLength(2);
    for (const file of [indexFile(PREFIX), 'manifest']) expect(holdersOf(file)).toEqual(PLACES);
    await expectWhole();
  });

  test('makes more copies on request, and reports how many could not be made', async () => {
    expect(await repair({ replicas: 2 })).toMatchObject({ shortfall: 0 });
    for (const file of [SHARD, OTHER]) expect(holdersOf(file)).toEqual(PLACES);
    const broken = rootOf(disks, 'ps/2');
    rmSync(broken, { recursive: true });
    writeFileSync(broken, 'no directory');
    const { shortfall, actions } = await repair({ replicas: 2 });
    expect(shortfall).toBeGreaterThanOrEqual(2);
    expect(actions.every(({ place, failure }) => place === 'ps/2' && failure !== undefined)).toBe(true);
  });

  test('prefers a host without a copy', async () => {
    const [kept, lost] = placesOf(SHARD);
    const free = PLACES.find((place) => place !== kept && place !== lost)!;
    rmSync(pathAt(lost!, SHARD));
    // The place that lost its copy shares the host of the remaining one.
    const places = members({ [kept!]: 'A', [lost!]: 'A', [free]: 'B' });
    expect((await repair({ places })).actions).toMatchObject([{ type: 'add', file: SHARD, place: free }]);
  });

  test('assembles a file from copies that are damaged in different chunks', async () => {
    const [first, second] = placesOf(SHARD);
    flip(first!, SHARD, 1);
    flip(second!, SHARD, CHUNK_BYTES + 1);
    expect(lostFiles(await verify())).toEqual([SHARD]);
    const { actions, lost } = await repair();
    expect(lost).toEqual([]);
    expect(actions.map(({ type }) => type)).toEqual(['rebuild', 'rebuild']);
    await expectWhole();
  });

  test('reports a lost file and leaves its damaged copies alone', async () => {
    for (const place of placesOf(SHARD)) flip(place, SHARD, 1);
    const sums = () => placesOf(SHARD).map((place) => crc32c(readFileSync(pathAt(place, SHARD))));
    const before = sums();
    const { lost, actions } = await repair();
    expect(lost).toEqual([SHARD]);
    expect(actions).toEqual([]);
    expect(sums()).toEqual(before);
  });

  test('a repaired checkpoint survives the loss of the disk with the good copies', async () => {
    const [damaged, good] = placesOf(SHARD);
    flip(damaged!, SHARD, 9);
    await repair();
    rmSync(rootOf(disks, good!), { recursive: true });
    const out = join(disks, 'out');
    await pullCheckpoint(storeOn(disks), 'job', manifest, out);
    for (const { file } of manifest.files) {
      expect(readFileSync(join(out, file)).equals(readFileSync(join(original, file)))).toBe(true);
    }
  });
});
