/** Compares every source and method with Python's tf.data: the same elements in the same order. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { constant, equal, fill, less, mod, mul, reshape } from '../../../tensorflow/ops/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import * as data from '../data.js';
import { drain } from '../testing/drain.js';
import type { Dataset } from './dataset.js';

let folder: string;
let oracle: Record<string, unknown[]>;
const path = (name: string) => join(folder, name);

async function writeRecords(
  name: string,
  records: readonly (string | Uint8Array)[],
  compression?: 'gzip' | 'zlib',
) {
  await using writer = new TFRecordWriter(path(name), { compression });
  for (const record of records) await writer.write(typeof record === 'string' ? Buffer.from(record) : record);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-input-'));
  const words = (prefix: string) => Array.from({ length: 7 }, (_, i) => `${prefix}${i}`);
  await writeRecords('r-0.tfrecord', words('a'));
  await writeRecords('r-1.tfrecord', words('b'));
  await writeRecords('r.gz', words('g'), 'gzip');
  await writeRecords('r.zlib', words('z'), 'zlib');
  for (let i = 0; i < 6; i++) writeFileSync(path(`l-${i}.txt`), `first ${i}\n\nlast ${i}`);
  writeFileSync(path('fixed.bin'), 'HHHaaaabbbbccccFF');
  writeFileSync(path('t.csv'), 'x,n,s\n1.5,2,one\n2.5,,"two, quoted"\n-3,4,three\n');
  const examples = Array.from({ length: 7 }, (_, i) =>
    encodeExample({
      label: i,
      ids: BigInt64Array.from({ length: i % 4 }, (_, k) => BigInt(i * 100 + k)),
      values: Float32Array.from({ length: i % 4 }, (_, k) => i + k / 4),
      ...(i % 2 ? { name: `n${i}`, pair: [BigInt(i), 1n] } : {}),
      steps: Float32Array.from({ length: i % 3 }, (_, k) => k),
    }),
  );
  await writeRecords('e.tfrecord', examples);
  oracle = await askPython(new URL('../testing/datasets.py', import.meta.url), { folder });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const FEATURES = {
  label: data.fixedLenFeature([], 'float32'),
  ids: data.varLenFeature('int64'),
  values: data.varLenFeature('float32'),
  name: data.fixedLenFeature([], 'string', 'nobody'),
  pair: data.fixedLenFeature([2], 'int64', [7n, 7n]),
  steps: data.fixedLenSequenceFeature([], 'float32'),
};

const long = (value: number) => Tensor.of(BigInt(value));
const sparseOf = (n: Output<'int64'>) =>
  new SparseTensor<'int64'>({
    indices: reshape(n, [1, 1]),
    values: reshape(mul(n, 10n), [1]),
    denseShape: constant(BigInt64Array.of(9n)),
  });
const ragged = () => data.range(1, 6).map((n) => fill(reshape(n, [1]), n));

const CASES: Record<string, () => Dataset<unknown>> = {
  slices: () =>
    data.fromTensorSlices({
      x: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      y: Int32Array.of(1, 2, 3),
    }),
  tensors: () => data.fromTensors([Tensor.of('a'), Tensor.of([1, 2])]),
  range: () => data.range(3, 20, 4),
  map: () => data.range(5).map((n) => ({ twice: n.mul(2n), square: n.mul(n) })),
  'parallel map': () => data.range(50).map((n) => n.mul(n), { parallel: 4 }),
  filter: () => data.range(20).filter((n) => equal(mod(n, 3n), 1n)),
  shuffle: () => data.range(40).shuffle(7, { seed: 11 }),
  'shuffle repeated': () => data.range(10).shuffle(10, { seed: 3 }).repeat(3),
  'shuffle the same': () => data.range(10).shuffle(10, { seed: 3, reshuffleEachIteration: false }).repeat(2),
  repeat: () => data.range(3).repeat(3),
  batch: () => data.range(10).batch(4),
  'batch, drop remainder': () => data.range(10).batch(4, { dropRemainder: true }),
  'parallel batch': () => data.range(10).batch(4, { parallel: 2 }),
  padded: () => ragged().paddedBatch(2),
  'padded to a given shape': () => ragged().paddedBatch(3, { paddedShapes: [[6]], paddingValues: [-1] }),
  interleave: () =>
    data.range(4).interleave((n) => data.range(3).map((m) => n.mul(10n).add(m)), { cycle: 2, block: 2 }),
  'parallel interleave': () =>
    data.range(6).interleave((n) => data.range(3).map((m) => n.mul(10n).add(m)), { cycle: 3, parallel: 3 }),
  'flat map': () => data.range(4).flatMap((n) => data.range(100).take(n)),
  'take and skip': () => data.range(20).skip(5).take(4),
  shard: () => data.range(20).shard(3, 1),
  concatenate: () => data.range(3).concatenate(data.range(10, 12)),
  zip: () => data.zip([data.range(3), { a: data.range(10, 20) }]),
  unbatch: () => data.range(5).batch(2).unbatch(),
  unique: () =>
    data
      .range(8)
      .map((n) => mod(n, 3n))
      .unique(),
  'take while': () => data.range(8).takeWhile((n) => less(n, long(5))),
  prefetch: () => data.range(5).prefetch(2),
  sparse: () => data.range(3).map((n) => ({ s: sparseOf(n), n })),
  'sparse batch': () => data.range(5).map(sparseOf).batch(2),
  files: () => data.files(path('r-*.tfrecord')),
  'files shuffled': () => data.files(path('l-*.txt'), { shuffle: true, seed: 5 }),
  tfrecord: () => data.tfRecord([path('r-0.tfrecord'), path('r-1.tfrecord')]),
  'tfrecord gzip': () => data.tfRecord(path('r.gz'), { compression: 'gzip' }),
  'tfrecord zlib': () => data.tfRecord(path('r.zlib'), { compression: 'zlib' }),
  text: () => data.textLines([path('l-0.txt'), path('l-1.txt')]),
  fixed: () => data.fixedLength(path('fixed.bin'), { recordBytes: 4, headerBytes: 3, footerBytes: 2 }),
  csv: () =>
    data
      .csv(path('t.csv'), {
        columns: { x: 'float32', n: { dtype: 'int64', default: -1n }, s: 'string' },
        header: true,
      })
      .map(({ x, n, s }) => [x, n, s]),
  'csv selected': () =>
    data
      .csv(path('t.csv'), {
        columns: { x: { dtype: 'float32', default: 5 }, n: 'int64', s: 'string' },
        select: ['x', 's'],
        header: true,
        naValue: 'NA',
      })
      .map(({ x, s }) => [x, s]),
  examples: () => data.tfRecord(path('e.tfrecord')).batch(3).parseExample(FEATURES, { parallel: 2 }),
  'examples by op': () =>
    data
      .tfRecord(path('e.tfrecord'))
      .batch(3)
      .map((s) => data.parseExample(s, FEATURES)),
  'examples one by one': () =>
    data
      .tfRecord(path('e.tfrecord'))
      .map((s) => data.parseExample(s, { label: FEATURES.label, ids: FEATURES.ids })),
};

describe('same elements as tf.data:', () => {
  test.each(Object.keys(CASES))('%s', async (name) => {
    const graph = new Graph();
    expect(await drain(graph, CASES[name] as () => Dataset<unknown>)).toEqual(oracle[name]);
  });

  test('every case of the Python program is tested', () => {
    expect(Object.keys(CASES).sort()).toEqual(Object.keys(oracle).sort());
  });
});
