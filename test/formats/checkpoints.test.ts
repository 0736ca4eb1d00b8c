/** Checkpoints of Shoal and of TensorFlow are interchangeable in both directions, byte for byte. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DataType } from '../../src/base/proto/generated/graph_pb.js';
import {
  formatCheckpointState,
  parseCheckpointState,
  relativePaths,
  resolvePaths,
} from '../../src/tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { DirectoryReader } from '../../src/tensorflow/formats/range-reader.js';
import { Table } from '../../src/tensorflow/formats/sstable/table.js';
import { mergeBundleIndexes } from '../../src/tensorflow/formats/tensor-bundle/bundle-index.js';
import { BundleReader } from '../../src/tensorflow/formats/tensor-bundle/bundle-reader.js';
import { readIndexFile, writeIndexFile } from '../../src/tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../src/tensorflow/formats/tensor-bundle/naming.js';
import { BundleShardWriter, type ByteSink } from '../../src/tensorflow/formats/tensor-bundle/shard-writer.js';
import type { TensorSlice } from '../../src/tensorflow/formats/tensor-bundle/slice.js';
import { damaged, valueOrCodedError } from './fuzz.js';
import { oracle, temporaryDirectory } from './oracle.js';

interface Described {
  readonly dtype: DataType;
  readonly shape: number[];
  /** The sha256 of the bytes; strings in hexadecimal. */
  readonly content: string | string[];
}
type Written = Record<string, Record<string, Described>> & { states: Record<'saver' | 'odd', string[]> };
interface Read {
  readonly tensors: Record<string, Record<string, Described>>;
  readonly rows: Described;
  readonly latest: string;
  readonly state: { readonly paths: string[]; readonly timestamps: number[] };
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const hex = (values: Uint8Array[]) => values.map((value) => Buffer.from(value).toString('hex'));

async function describeTensor(bundle: BundleReader, name: string): Promise<Described> {
  const { dtype, shape } = bundle.tensor(name);
  const strings = dtype === DataType.DT_STRING;
  const content = strings ? hex(await bundle.readStrings(name)) : sha256(await bundle.read(name));
  return { dtype, shape: [...shape], content };
}

/** Keeps copies of the written bytes: the writer reuses its buffers. */
function memorySink(): ByteSink & { bytes(): Buffer } {
  const chunks: Uint8Array[] = [];
  return { write: (chunk) => void chunks.push(chunk.slice()), bytes: () => Buffer.concat(chunks) };
}

let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
let files: DirectoryReader;
let written: Written;
const open = (prefix: string) => BundleReader.open(files, prefix);

beforeAll(async () => {
  folder = await temporaryDirectory();
  files = new DirectoryReader(folder.path);
  written = await oracle<Written>('checkpoints.py', 'write', folder.path);
});
afterAll(async () => {
  await files.close();
  await folder.remove();
});

const prefixes = ['dtypes', 'many', 'sharded', 'saver/model.ckpt-3'];

describe('a checkpoint written by TensorFlow', () => {
  test.each(prefixes)('%s is read with the same values', async (prefix) => {
    const bundle = await open(prefix);
    for (const [name, expected] of Object.entries(written[prefix]!)) {
      expect({ name, ...(await describeTensor(bundle, name)) }).toEqual({ name, ...expected });
    }
  });

  test.each(prefixes)('%s has an index that Shoal writes identically', async (prefix) => {
    const bytes = await readFile(join(folder.path, indexFile(prefix)));
    expect(Buffer.compare(writeIndexFile(readIndexFile(bytes, prefix)), bytes)).toBe(0);
  });

  test('has an index of several blocks, and no tensor is missed', async () => {
    expect(await files.size(indexFile('many'))).toBeGreaterThan(256 * 1024);
    expect((await open('many')).index.tensors.size).toBe(12_000);
  });

  test('of version 1 is readable as a table', async () => {
    const bytes = await readFile(join(folder.path, 'old.ckpt'));
    const values = [...new Table(bytes, 'old.ckpt').entries()].map((entry) => entry.value.length);
    expect(values.reduce((sum, length) => sum + length)).toBeGreaterThan(650_000);
  });

  test('returns any slice across the saved slices, with or without verification', async () => {
    const bundle = await open('sharded');
    const table = new Float32Array(60).map((_, i) => i);
    const rows: TensorSlice = [{ start: 5, length: 20 }, 'all'];
    const cells: TensorSlice = [
      { start: 9, length: 13 },
      { start: 1, length: 1 },
    ];
    for (const verify of [true, false]) {
      const some = await bundle.read('table', { slice: rows, verify });
      expect(new Float32Array(new Uint8Array(some).buffer)).toEqual(table.slice(10, 50));
      const column = await bundle.read('table', { slice: cells, verify });
      expect(new Float32Array(new Uint8Array(column).buffer)).toEqual(
        table.filter((i) => i % 2 === 1 && i >= 18 && i < 44),
      );
    }
    const words = await bundle.readStrings('words', { slice: [{ start: 3, length: 2 }] });
    expect(words.map(String)).toEqual([Buffer.from('w3'), Buffer.from('w4')].map(String));
  });

  test('is verified without being held in memory', async () => {
    for (const prefix of prefixes) {
      const bundle = await open(prefix);
      for (const name of Object.keys(written[prefix]!)) await bundle.verify(name);
    }
  });

  test('with a flipped bit in its data is rejected with the name of the tensor', async () => {
    const data = await readFile(join(folder.path, dataFile('sharded', 0, 2)));
    data[data.length >> 1]! ^= 1;
    const flipped = {
      size: (file: string) => files.size(file),
      read: async (file: string, offset: number, length: number) =>
        file.includes('.data-00000')
          ? data.subarray(offset, offset + length)
          : files.read(file, offset, length),
    };
    const bundle = await BundleReader.open(flipped, 'sharded');
    const failures: string[] = [];
    for (const name of bundle.index.tensors.keys()) {
      await bundle.verify(name).catch((error: Error) => failures.push(error.message));
    }
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatch(
      /sharded\.data-00000-of-00002.*(table|columns|words|bias).*(checksum|bytes)/s,
    );
  });

  test('with a damaged index yields a value or a coded error', async () => {
    for (const name of [indexFile('saver/model.ckpt-3'), indexFile('dtypes')]) {
      const bytes = await readFile(join(folder.path, name));
      const read = (some: Uint8Array) => valueOrCodedError(() => readIndexFile(some, name));
      fc.assert(fc.property(damaged(bytes), read), { numRuns: 300 });
    }
  });

  test('has a state file whose paths are resolved like in TensorFlow', async () => {
    for (const name of ['saver', 'odd'] as const) {
      const directory = join(folder.path, name);
      const state = parseCheckpointState(await readFile(join(directory, 'checkpoint'), 'utf8'));
      const resolved = resolvePaths(state, directory);
      const all = name === 'odd' ? [resolved.modelCheckpointPath] : [];
      expect([...all, ...resolved.allModelCheckpointPaths]).toEqual(written.states[name]);
    }
  });
});

describe('a checkpoint written by Shoal', () => {
  let read: Read;

  beforeAll(async () => {
    await copyBundle('dtypes', 'ours-dtypes');
    await writeSharded('ours-sharded');
    await mkdir(join(folder.path, 'ours-state'));
    const directory = join(folder.path, 'ours-state');
    const paths = ['plain-1', 'with "quotes" \\ and\ttab-2', 'ünïcode-3'].map((name) =>
      join(directory, name),
    );
    const state = {
      modelCheckpointPath: paths[2]!,
      allModelCheckpointPaths: paths,
      allModelCheckpointTimestamps: [1.5, 1700000000.123456, 1e20],
      lastPreservedTimestamp: 12.25,
    };
    await writeFile(join(directory, 'checkpoint'), formatCheckpointState(relativePaths(state, directory)));
    await writeFile(
      join(folder.path, 'checkpoint'),
      formatCheckpointState({
        ...state,
        modelCheckpointPath: 'ours-dtypes',
        allModelCheckpointPaths: ['ours-dtypes'],
      }),
    );
    read = await oracle<Read>('checkpoints.py', 'read', folder.path, 'ours-dtypes', 'ours-sharded');
  });

  /** Copies each tensor of a bundle to another, in file order. */
  async function copyBundle(from: string, to: string): Promise<void> {
    const bundle = await open(from);
    const sink = memorySink();
    const writer = new BundleShardWriter(sink, { sha256: true });
    const tensors = [...bundle.index.tensors.values()].sort(
      (a, b) => a.pieces[0]!.offset - b.pieces[0]!.offset,
    );
    for (const { name, dtype, shape } of tensors) {
      if (dtype === DataType.DT_STRING)
        await writer.addStrings(name, { shape }, await bundle.readStrings(name));
      else await writer.add(name, { dtype, shape }, await bundle.read(name));
    }
    const shard = await writer.finish();
    expect(shard.sha256).toBe(sha256(sink.bytes()));
    await writeFile(join(folder.path, dataFile(to, 0, 1)), sink.bytes());
    await writeFile(join(folder.path, indexFile(to)), writeIndexFile(shard.index));
  }

  /** The table in different slices from TensorFlow's, over three shards that are merged by their indexes. */
  async function writeSharded(prefix: string): Promise<void> {
    const table = Buffer.from(new Float32Array(60).map((_, i) => i).buffer);
    const indexes = [];
    for (const [shard, [start, length]] of (
      [
        [0, 7],
        [7, 16],
        [23, 7],
      ] as const
    ).entries()) {
      const sink = memorySink();
      const writer = new BundleShardWriter(sink);
      const slice: TensorSlice = [{ start, length }, 'all'];
      const rows = table.subarray(start * 8, (start + length) * 8);
      await writer.add('table', { dtype: DataType.DT_FLOAT, shape: [30, 2], slice }, [
        rows.subarray(0, 9),
        rows.subarray(9),
      ]);
      if (shard === 1) await writer.addStrings('note', { shape: [] }, ['from shard 1']);
      indexes.push((await writer.finish()).index);
      await writeFile(join(folder.path, dataFile(prefix, shard, 3)), sink.bytes());
    }
    await writeFile(join(folder.path, indexFile(prefix)), writeIndexFile(mergeBundleIndexes(indexes)));
  }

  test('is byte-identical to the one TensorFlow writes for the same tensors', async () => {
    for (const file of [dataFile, indexFile]) {
      const [theirs, ours] = await Promise.all(
        ['dtypes', 'ours-dtypes'].map((prefix) => readFile(join(folder.path, file(prefix, 0, 1)))),
      );
      expect(Buffer.compare(theirs!, ours!)).toBe(0);
    }
  });

  test('is read by TensorFlow with the same values', () => {
    expect(read.tensors['ours-dtypes']).toEqual(written.dtypes);
    expect(read.tensors['ours-sharded']!.note!.content).toEqual([
      Buffer.from('from shard 1').toString('hex'),
    ]);
    const table = Buffer.from(new Float32Array(60).map((_, i) => i).buffer);
    expect(read.tensors['ours-sharded']!.table!.content).toBe(sha256(table));
  });

  test('is read by TensorFlow in slices across the saved slices', () => {
    const table = new Float32Array(60).map((_, i) => i);
    expect(read.rows).toEqual({
      dtype: 1,
      shape: [20, 2],
      content: sha256(Buffer.from(table.slice(10, 50).buffer)),
    });
  });

  test('has a state file that TensorFlow reads', () => {
    const names = ['plain-1', 'with "quotes" \\ and\ttab-2', 'ünïcode-3'];
    const paths = names.map((name) => join(folder.path, 'ours-state', name));
    expect(read.state.paths).toEqual([paths[2], ...paths]);
    expect(read.state.timestamps).toEqual([1.5, 1700000000.123456, 1e20, 12.25]);
    expect(read.latest).toBe(join(folder.path, 'ours-dtypes'));
  });
});
