import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { askPython } from '../../../test/python.js';
import { tf } from '../../index.js';
import { Graph } from '../graph/graph.js';
import type { Fetches, FetchResult } from '../session/fetches.js';
import { Session } from '../session/session.js';
import { exportMetaGraph, importMetaGraph } from '../variables/meta-graph.js';

const ORACLE = new URL('./testing/oracle.py', import.meta.url);

/** Builds in a new graph, initializes its tables, and runs the result of `body`. */
async function run<const F extends Fetches>(body: () => F): Promise<FetchResult<F>> {
  using graph = new Graph();
  const { fetches, init } = graph.asDefault(() => ({ fetches: body(), init: tf.tablesInitializer() }));
  await using session = Session.open({ graph });
  await session.run(init);
  return await session.run(fetches);
}

test('maps indices to strings, unknown indices to the default', async () => {
  const words = await run(() =>
    tf.lookup
      .indexToStringTableFromTensor(['a', 'b'], { defaultValue: '?' })
      .lookup(tf.constant([1, 0, 7], { dtype: 'int64' })),
  );
  expect(words.toArray()).toEqual(['b', 'a', '?']);
});

test('the values have the static shape of the keys', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const words = tf.placeholder({ dtype: 'string', shape: [null, 3] });
    expect(tf.lookup.indexTableFromTensor(['a', 'b']).lookup(words).shape).toEqual([null, 3]);
    const buckets = tf.lookup.indexTableFromTensor(['a', 'b'], { numOovBuckets: 2 });
    expect(buckets.lookup(words).shape).toEqual([null, 3]);
    const inverse = tf.lookup.indexToStringTableFromTensor(['a', 'b']);
    expect(inverse.lookup(tf.placeholder({ dtype: 'int32', shape: [5] })).shape).toEqual([5]);
    expect(inverse.lookup(tf.placeholder({ dtype: 'int64', shape: null })).shape).toBeNull();
    const sparse = tf.SparseTensor.placeholder({ dtype: 'string', rank: 2 });
    expect(buckets.lookup(sparse).values.shape).toEqual([null]);
  });
});

test('maps strings and integers to indices', async () => {
  const [ids, numbers] = await run(() => [
    tf.lookup.indexTableFromTensor(['x', 'y'], { defaultValue: 9 }).lookup(['y', 'z', 'x']),
    tf.lookup.indexTableFromTensor([10, 20]).lookup(tf.constant([20, 30], { dtype: 'int32' })),
  ]);
  expect(ids.toArray()).toEqual([1n, 9n, 0n]);
  expect(numbers.toArray()).toEqual([1n, -1n]);
});

test('maps words outside the vocabulary to the same buckets as TensorFlow', async () => {
  const words = ['emerson', 'palmer', 'lake', 'and', 'king'];
  const expected = await askPython<{ strings: number[]; ints: number[] }>(ORACLE, { words });
  const [strings, ints, size] = await run(() => {
    const table = tf.lookup.indexTableFromTensor(['emerson', 'lake'], { numOovBuckets: 3 });
    const numbers = tf.lookup.indexTableFromTensor([1, 2], { numOovBuckets: 4 });
    return [table.lookup(words), numbers.lookup(tf.constant([1, 5, 6], { dtype: 'int64' })), table.size()];
  });
  expect(Array.from(strings.data, Number)).toEqual(expected.strings);
  expect(Array.from(ints.data, Number)).toEqual(expected.ints);
  expect(size.toArray()).toBe(5n);
});

test('sparse keys keep their indices', async () => {
  const found = await run(() => {
    const keys = new tf.SparseTensor<'string'>({
      indices: [
        [0, 1],
        [1, 0],
      ],
      values: ['y', 'x'],
      denseShape: [2, 2],
    });
    const { indices, values } = tf.lookup.indexTableFromTensor(['x', 'y']).lookup(keys);
    return { indices, values };
  });
  expect(found.values.toArray()).toEqual([1n, 0n]);
  expect(found.indices.toArray()).toEqual([
    [0n, 1n],
    [1n, 0n],
  ]);
});

test('file tables map line numbers, lines, and delimited columns', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'shoal-lookup-'));
  try {
    const [plain, columns] = [join(folder, 'words.txt'), join(folder, 'columns.csv')];
    await writeFile(plain, 'zero\none\ntwo\n');
    await writeFile(columns, 'a,7\nb,8\n');
    const [ids, words, chosen] = await run(() => [
      tf.lookup.indexTableFromFile(plain, { numOovBuckets: 1 }).lookup(['two', 'none', 'zero']),
      tf.lookup
        .indexToStringTableFromFile(plain, { vocabSize: 2 })
        .lookup(tf.constant([1, 2], { dtype: 'int64' })),
      tf.lookup
        .indexTableFromFile(columns, { keyColumnIndex: 0, valueColumnIndex: 1, delimiter: ',' })
        .lookup(['b', 'c']),
    ]);
    expect(ids.toArray()).toEqual([2n, 3n, 0n]);
    expect(words.toArray()).toEqual(['one', 'UNK']);
    expect(chosen.toArray()).toEqual([8n, -1n]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('a table survives a MetaGraphDef round trip with its initializer', async () => {
  using graph = new Graph();
  const meta = graph.asDefault(() => {
    const ids = tf.lookup.indexTableFromTensor(['x', 'y']).lookup(['y']);
    tf.identity(ids, { name: 'ids' });
    return exportMetaGraph();
  });
  using again = new Graph();
  importMetaGraph(meta, { graph: again });
  await using session = Session.open({ graph: again });
  await session.run(tf.tablesInitializer(again));
  expect((await session.run('ids:0')).toArray()).toEqual([1n]);
});

test('an uninitialized table fails in TensorFlow, keys of another dtype fail when the graph is built', async () => {
  using graph = new Graph();
  const [found, table] = graph.asDefault(() => {
    const table = tf.lookup.indexTableFromTensor(['x']);
    return [table.lookup(['x']), table] as const;
  });
  await using session = Session.open({ graph });
  await expect(session.run(found)).rejects.toMatchObject({ code: 'SHOAL_TF_FAILED_PRECONDITION' });
  expect(() => graph.asDefault(() => table.lookup(tf.constant([1.5])))).toThrow(/keys of dtype string/);
  expect(() => graph.asDefault(() => tf.lookup.indexTableFromTensor([]))).toThrow(/empty/);
});
