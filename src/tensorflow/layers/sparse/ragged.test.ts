/** `tf.ragged`, `tf.sparse` and the functions of `tf.strings` that return rows: their values are TensorFlow's. */
import { expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { Graph, type Output, Session, type Tensor, tf } from '../../../index.js';

const PROGRAM = new URL('../testing/ragged.py', import.meta.url);
type Value = Output | tf.SparseTensor | tf.RaggedTensor | readonly Value[];

function cases(): Record<string, Value> {
  const { ragged, sparse, strings, RaggedTensor, SparseTensor } = tf;
  const rows = ragged.constant([[1, 2], [], [3, 4, 5]], { dtype: 'float32' });
  const deep = ragged.constant([[[1, 2], []], [], [[3], [4, 5, 6], [7]]], { dtype: 'int32' });
  const words = ragged.constant<'string'>([['a', 'b', 'c'], [], ['d']]);
  const x = new SparseTensor<'float32'>({
    indices: [
      [0, 1],
      [1, 0],
      [1, 2],
    ],
    values: tf.constant([1, -2, 3]),
    denseShape: [3, 3],
  });
  const other = new SparseTensor<'float32'>({
    indices: [
      [0, 1],
      [2, 2],
    ],
    values: tf.constant([5, 7]),
    denseShape: [3, 3],
  });
  const dense = tf.constant([
    [1, 2],
    [3, 4],
    [5, 6],
  ]);
  const names = sparse.fromDense<'string'>([
    ['a', ''],
    ['b', 'c'],
    ['', ''],
  ]);
  const ids = new SparseTensor<'int64'>({
    indices: [
      [0, 0],
      [0, 1],
      [2, 0],
    ],
    values: tf.constant([2, 0, 2], { dtype: 'int64' }),
    denseShape: [3, 2],
  });
  const characters = ['aé', '', '日'];
  return {
    constant: deep,
    'row lengths': rows.rowLengths(),
    'value rowids': rows.valueRowids(),
    nrows: rows.nrows(),
    'to tensor': rows.toTensor(),
    'to tensor, default': words.toTensor('-'),
    'to tensor, deep': deep.toTensor(9),
    'to sparse': words.toSparse(),
    'to sparse, deep': deep.toSparse(),
    'from row lengths': RaggedTensor.fromRowLengths(tf.range(0, 4), [1, 0, 3]),
    'from value rowids': RaggedTensor.fromValueRowids(
      tf.constant([1, 2, 3], { dtype: 'int32' }),
      [0, 2, 2],
      5,
    ),
    'from sparse': RaggedTensor.fromSparse(names),
    map: ragged.mapFlatValues(tf.square, rows),
    sum: ragged.reduceSum(rows, { axis: 1 }),
    mean: ragged.reduceMean(rows),
    max: ragged.reduceMax(rows),
    min: ragged.reduceMin(rows),
    prod: ragged.reduceProd(rows),
    'deep sum': ragged.reduceSum(deep, { axis: 2 }),
    'gradient of to tensor': gradient(rows.toTensor(), rows.flatValues),
    'gradient of mean': gradient(
      ragged.reduceSum(RaggedTensor.fromRowLengths(rows.flatValues, [2, 3])) as Output,
      rows.flatValues,
    ),
    'from dense': sparse.fromDense(
      tf.constant(
        [
          [0, 3],
          [4, 0],
        ],
        { dtype: 'int32' },
      ),
    ),
    'from dense words': names,
    'to dense': sparse.toDense(x, { defaultValue: 9 }),
    'to dense words': sparse.toDense(names),
    concat: sparse.concat(1, [x, other]),
    reorder: sparse.reorder(
      new SparseTensor({
        indices: [
          [1, 0],
          [0, 1],
        ],
        values: [1, 2],
        denseShape: [2, 2],
      }),
    ),
    fill: sparse.fillEmptyRows(names, 'none'),
    slice: sparse.slice(x, [1, 0], [2, 2]),
    transpose: sparse.transpose(x),
    add: sparse.add(x, other),
    'reduce sum': sparse.reduceSum(x, { axis: 1 }),
    'reduce sum of all': sparse.reduceSum(x),
    'reduce max': sparse.reduceMax(x, { axis: 1, keepdims: true }),
    softmax: sparse.softmax(x),
    matmul: sparse.sparseDenseMatmul(x, dense),
    'matmul, adjoint': sparse.sparseDenseMatmul(x, dense, { adjointA: true }),
    'gradient of matmul': gradient(sparse.sparseDenseMatmul(x, dense), x.values),
    'segment sum': sparse.segmentSum(dense, [0, 2, 1], [0, 0, 1]),
    'segment mean': sparse.segmentMean(dense, [0, 2, 1], [0, 0, 2], { numSegments: 4 }),
    'segment sqrt n': sparse.segmentSqrtN(dense, [0, 2, 1], [0, 0, 1]),
    cross: sparse.crossHashed([names, tf.constant([['x'], ['y'], ['z']])], { numBuckets: 1000 }),
    'cross with ids': sparse.crossHashed([names, ids], { hashKey: 5 }),
    indicator: sparse.toIndicator(ids, 4),
    bytes: strings.bytesSplit(['ab', '', 'c']),
    ngrams: strings.ngrams(words, [1, 2], { separator: '|' }),
    'padded ngrams': strings.ngrams(words, 3, { padValues: ['<', '>'] }),
    'code points': strings.unicodeDecode(characters),
    encoded: strings.unicodeEncode(strings.unicodeDecode(characters, 'UTF-8')),
    characters: strings.unicodeSplit(['aé', '', '日x'], 'UTF-8'),
  };
}

function gradient(y: Output, x: Output): Output {
  const factors = tf.cast(tf.reshape(tf.range(1, tf.add(tf.size(y), 1)), tf.shape(y)), 'float32');
  return tf.gradients(tf.sum(tf.mul(y, factors)), [x])[0] as Output;
}

const partsOf = (value: Value): readonly Output[] => {
  if (Array.isArray(value)) return (value as readonly Value[]).flatMap(partsOf);
  if (value instanceof tf.SparseTensor) return [value.indices, value.values, value.denseShape];
  if (value instanceof tf.RaggedTensor) return [value.flatValues, ...value.nestedRowSplits];
  return [value as Output];
};

const leaves = (value: unknown): unknown[] => [value].flat(Number.POSITIVE_INFINITY) as unknown[];

test('the values of all functions, and their gradients', async () => {
  const expected = await askPython<Record<string, unknown>>(PROGRAM);
  using graph = new Graph();
  const made = graph.asDefault(cases);
  expect(Object.keys(made)).toEqual(Object.keys(expected));
  await using session = Session.open({ graph });
  for (const [name, value] of Object.entries(made)) {
    const results = (await session.run([...partsOf(value)])) as Tensor[];
    const have = leaves(results.map((result) => result.toArray()));
    const want = leaves(expected[name]);
    expect(have.length, name).toBe(want.length);
    have.forEach((item, i) => {
      if (typeof item === 'number' && Number.isFinite(item))
        expect(item, name).toBeCloseTo(want[i] as number, 5);
      else if (typeof item === 'bigint') expect(Number(item), name).toBe(want[i]);
      else if (typeof item === 'number')
        expect(String(item).toLowerCase(), name).toBe(String(want[i]).toLowerCase());
      else expect(item, name).toEqual(want[i]);
    });
  }
}, 180_000);

test('wrong rows are errors', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const deep = tf.ragged.constant([[[1]], []], { dtype: 'float32' });
    expect(() => tf.ragged.constant([1, 2])).toThrow(/list of rows/);
    expect(() => tf.ragged.constant([[1], 2])).toThrow(/same depth/);
    expect(() => tf.ragged.reduceSum(deep, { axis: 1 })).toThrow(/reduces axis 2/);
    expect(() => tf.RaggedTensor.fromRowSplits(tf.constant(1), [0])).toThrow(/at least one axis/);
    expect(() => tf.RaggedTensor.fromSparse(deep.toSparse())).toThrow(/two axes, it has 3/);
  });
});
