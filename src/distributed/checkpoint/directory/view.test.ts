import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DataType } from '../../../base/proto/generated/graph_pb.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { BundleShardWriter } from '../../../tensorflow/formats/tensor-bundle/shard-writer.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { pushCheckpoint } from './transfer.js';
import { CheckpointView } from './view.js';

const PREFIX = 'model.ckpt-7';
let scratch: string;
let store: DirectoryStore;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-view-'));
  mkdirSync(join(scratch, 'blobs'));
  store = new DirectoryStore(join(scratch, 'blobs'));
});

afterEach(async () => {
  await store.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** Saves a checkpoint in the store. */
async function save() {
  const path = join(scratch, PREFIX);
  const chunks: Uint8Array[] = [];
  const writer = new BundleShardWriter({ write: (chunk) => void chunks.push(chunk.slice()) });
  await writer.add('w', { dtype: DataType.DT_FLOAT, shape: [1] }, new Uint8Array(4));
  writeFileSync(indexFile(path), writeIndexFile((await writer.finish()).index));
  writeFileSync(dataFile(path, 0, 1), Buffer.concat(chunks));
  return pushCheckpoint(store, '', path, {});
}

const directory = () => join(scratch, 'checkpoints');
const note = () => join(directory(), 'SHOAL-README.txt');
const view = (roots: readonly string[]) =>
  new CheckpointView({ store, namespace: '', directory: directory(), roots, job: 'mnist' });

test('a directory without the data files has a note that names the command to copy them', async () => {
  const manifest = await save();
  await view([]).update([manifest]);
  expect(existsSync(join(directory(), indexFile(PREFIX)))).toBe(true);
  expect(readFileSync(note(), 'utf8')).toContain('shoal checkpoint pull latest DIRECTORY --job mnist');
  await view([]).update([manifest]);
  expect(existsSync(note())).toBe(true);
  await view([]).update([]);
  expect(existsSync(note())).toBe(false);
});

test('a directory with all files has no note', async () => {
  await view([store.root]).update([await save()]);
  expect(existsSync(join(directory(), dataFile(PREFIX, 0, 1)))).toBe(true);
  expect(existsSync(note())).toBe(false);
});

test('a note that Shoal did not write stays as it is', async () => {
  mkdirSync(directory());
  writeFileSync(note(), 'mine');
  const manifest = await save();
  await view([]).update([manifest]);
  await view([]).update([]);
  expect(readFileSync(note(), 'utf8')).toBe('mine');
});

test('files that cannot be written leave no temporary ones', async () => {
  // A directory has the name of the state file, so it cannot be replaced.
  mkdirSync(join(directory(), 'checkpoint', 'taken'), { recursive: true });
  await expect(view([store.root]).update([await save()])).rejects.toThrow();
  const blocked = new CheckpointView({
    store,
    namespace: '',
    directory: directory(),
    roots: [],
    job: 'mnist',
  });
  // So has the record of the files.
  rmSync(join(directory(), '.shoal-view'), { force: true });
  mkdirSync(join(directory(), '.shoal-view'));
  await blocked.update([await save()]).catch(() => {});
  expect(readdirSync(directory()).filter((file) => /^\.shoal-view\./.test(file))).toEqual([]);
});
