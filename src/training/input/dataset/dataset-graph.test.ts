/** Datasets in a graph: devices of their ops, iterators, invalid arguments. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { replicaDeviceSetter } from '../../../distributed/cluster/spec/device-setter.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { embeddingLookupSparse } from '../../../tensorflow/layers/index.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { tablesInitializer } from '../../../tensorflow/variables/initialize.js';
import { newVariable } from '../../../tensorflow/variables/variable-scope.js';
import * as data from '../data.js';
import { drain, drainFetch } from '../testing/drain.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-dataset-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('an iterator', () => {
  test('is on the worker under a replica device setter, with all its inputs', () => {
    const graph = new Graph();
    const setter = replicaDeviceSetter({ psTasks: 2, workerDevice: '/job:worker/task:1' });
    const next = graph.device(setter, () =>
      graph.asDefault(() => data.range(5).shuffle(3).batch(2).prefetch().iterator().getNext()),
    );
    expect(next.op.type).toBe('IteratorGetNext');
    const devices = new Set(graph.operations().map(({ device }) => device));
    expect([...devices]).toEqual(['/job:worker/task:1/device:CPU:0']);
  });

  test.each([
    ['is fixed', false, () => data.fromTensorSlices([1, 2]).shuffle(2).repeat().batch(2).prefetch(2)],
    ['has an automatic size', true, () => data.fromTensorSlices([1, 2]).batch(2).prefetch()],
    ['has no prefetch, which TensorFlow adds', true, () => data.fromTensorSlices([1, 2]).batch(2)],
    [
      'has a map, which TensorFlow makes parallel',
      true,
      () =>
        data
          .range(2)
          .map((x) => x)
          .prefetch(2),
    ],
  ])('of a dataset that %s: autotuned: %s', (_name, isTuned, make) => {
    const graph = new Graph();
    graph.asDefault(() => (make() as data.Dataset).iterator());
    expect(graph.operations().some(({ type }) => type === 'OptionsDataset')).toBe(!isTuned);
  });

  test('is started by the table initializer, and restarts when that runs again', async () => {
    const graph = new Graph();
    const next = graph.asDefault(() => data.range(3).iterator().getNext());
    const init = tablesInitializer(graph);
    await using session = Session.open({ graph });
    await session.run(init);
    expect(await drainFetch(session, next)).toEqual([0, 1, 2]);
    await session.run(init);
    expect(await drainFetch(session, next)).toEqual([0, 1, 2]);
  });

  test('for one shot needs no initializer', async () => {
    const graph = new Graph();
    const next = graph.asDefault(() =>
      data
        .fromTensorSlices({ x: [1, 2, 3] })
        .map(({ x }) => x)
        .makeOneShotIterator()
        .getNext(),
    );
    await using session = Session.open({ graph });
    expect(await drainFetch(session, next)).toEqual([1, 2, 3]);
  });

  test('for one shot is rejected if the dataset depends on a placeholder', () => {
    const graph = new Graph();
    graph.asDefault(() => {
      const dataset = data.fromTensors(placeholder({ shape: [] }));
      expect(() => dataset.makeOneShotIterator()).toThrow(
        expect.objectContaining({
          message: expect.stringContaining('Placeholder'),
          hint: expect.stringContaining('Use dataset.iterator'),
        }),
      );
    });
  });

  test('captures values of the graph around its functions when it is initialized', async () => {
    const graph = new Graph();
    const { iterator, next, factor } = graph.asDefault(() => {
      const factor = placeholder({ dtype: 'int64', shape: [] });
      const iterator = data
        .range(3)
        .map((n) => n.mul(factor))
        .makeInitializableIterator();
      return { factor, iterator, next: iterator.getNext() };
    });
    await using session = Session.open({ graph });
    for (const by of [2, 5]) {
      await session.run(iterator.initializer, { feeds: [[factor, Tensor.of(BigInt(by))]] });
      expect(await drainFetch(session, next)).toEqual([0, by, 2 * by]);
    }
  });
});

test('provides batches of sparse features for an embedding lookup', async () => {
  const graph = new Graph();
  const { iterator, looked, init } = graph.asDefault(() => {
    const lines = join(folder, 'x.svm');
    writeFileSync(lines, '1 1:0.5 3:2 # a comment\n\n-1 qid:3 2:1.5\n');
    const weights = newVariable(Tensor.of([[1], [10], [100], [1000]]));
    const iterator = data.libSvm(lines, { features: 4 }).batch(2).makeInitializableIterator();
    const { label, features } = iterator.getNext();
    const ids = features.withValues(features.indices.slice([0, 1], [-1, 1]).reshape([-1]));
    const rows = embeddingLookupSparse(weights, ids, features, { combiner: 'sum' });
    return { iterator, init: weights.initializer, looked: { label, rows } };
  });
  await using session = Session.open({ graph });
  await session.run([init, iterator.initializer]);
  expect(await drainFetch(session, looked)).toEqual([{ label: [1, -1], rows: [[2005], [150]] }]);
});

describe('rejects', () => {
  const inGraph = <T>(body: () => T): T => new Graph().asDefault(body);

  test('a predicate that is not a scalar bool', () => {
    expect(() =>
      inGraph(() =>
        data
          .range(4)
          .batch(2)
          .filter((n) => n.less(3n)),
      ),
    ).toThrow(/boolean scalar/);
  });

  test('the concatenation of different elements', () => {
    const other = () => data.range(4).map((n) => ({ n }));
    expect(() => inGraph(() => data.range(4).concatenate(other() as never))).toThrow(
      /int64 \[\] and \{n: int64 \[\]\} differ/,
    );
  });

  test('a shard that does not exist', () => {
    expect(() => inGraph(() => data.range(4).shard(2, 2))).toThrow(/no shard 2/);
  });

  test('parsing of records that are not batched', () => {
    const features = { x: data.fixedLenFeature([], 'float32') };
    expect(() => inGraph(() => data.tfRecord('x').parseExample(features))).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/^Batch first/) }),
    );
  });

  test('a pattern that matches nothing, when the iterator starts', async () => {
    const none = join(folder, 'none-*');
    await expect(drain(new Graph(), () => data.tfRecord(none))).rejects.toThrow(`No files match ${none}`);
  });
});
