/** What programs of TensorFlow 1 write from habit: the results are those of Python. */
import { describe, expect, it } from 'vitest';
import { Graph, Session, tf } from '../src/index.js';
import { askPython } from './python.js';

const PYTHON = new URL('./python-habits.py', import.meta.url);

const within = <T>(body: (graph: Graph) => T): T => {
  const graph = new Graph();
  return graph.asDefault(() => body(graph));
};

it('has the element types, shapes and values of Python', async () => {
  const graph = new Graph();
  const made = graph.asDefault(() => {
    const step = tf.newVariable(0, { name: 'step', trainable: false });
    const weight = tf.newVariable(0.5, { name: 'weight' });
    const count = tf.newVariable(3, { name: 'count' });
    const options = { globalStep: step, varList: null, name: null };
    const trainOp = new tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight), options);
    const one = tf.train.batch([tf.constant(1)], { batchSize: 2 });
    const two = tf.train.shuffleBatch([tf.constant(1), tf.constant([2])], {
      ...{ batchSize: 2, capacity: 10, minAfterDequeue: 1 },
    });
    const shuffled = tf.train.shuffleBatch([tf.constant([1, 2])], {
      ...{ batchSize: 2, capacity: 10, minAfterDequeue: 1 },
    });
    const words = tf.constant(['a b', 'c']);
    const x = tf.constant([
      [1, 2],
      [3, 4],
    ]);
    const values = {
      asString: tf.strings.asString([1, 2], { precision: 2 }),
      einsum: tf.einsum('ij,jk->ik', x, x),
      erf: tf.erf([0.5]),
      format: tf.strings.format('is {}', tf.constant([1, 2], { dtype: 'int32' })),
      gelu: tf.nn.gelu([0.5, -1]),
      hash: tf.strings.toHashBucketFast(words, 100, { name: 'hash' }),
      join: tf.strings.join([words, words], { separator: '-' }),
      reduceJoin: tf.strings.reduceJoin(
        [
          ['a', 'b'],
          ['c', 'd'],
        ],
        { separator: '-' },
      ),
      replace: tf.strings.regexReplace(words, ' ', '_'),
      softmax: tf.nn.softmax(x, { axis: 0, name: 'p' }),
      split: tf.strings.split(words).values,
      strong: tf.strings.toHashBucketStrong(words, 100, [1, 2]),
      substr: tf.strings.substr(words, [0, 0], [1, 1]),
      toInt32: tf.toInt32([1.9, -1.9]),
      toNumber: tf.strings.toNumber(['1', '2.5']),
      upper: tf.strings.upper(words),
    };
    return { step, weight, count, trainOp, one, two, shuffled, values };
  });
  await using session = Session.open({ graph, target: null, config: null });
  await session.run(graph.asDefault(() => tf.globalVariablesInitializer()));
  await session.run(made.trainOp);
  const { step, weight, count, one, two, shuffled } = made;
  const after = await session.run({ step, weight, count });
  const values = await session.run(made.values);
  const seen = {
    dtypes: [step, weight, count].map(({ dtype }) => dtype),
    after: [after.step, after.weight, after.count].map((value) => value.number()),
    one: one.shape,
    shuffled: shuffled.shape,
    two: two.map(({ shape }) => shape),
    values: Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, [value.toArray()].flat(2).map(plain)]),
    ),
  };
  const python = await askPython<typeof seen>(PYTHON, {});
  expect(seen.dtypes).toEqual(python.dtypes);
  expect([seen.one, seen.two, seen.shuffled]).toEqual([python.one, python.two, python.shuffled]);
  expect(seen.after.map(rounded)).toEqual(python.after.map(rounded));
  for (const [name, value] of Object.entries(seen.values)) {
    expect((value as unknown[]).map(rounded), name).toEqual((python.values[name] as unknown[]).map(rounded));
  }
});

const plain = (value: unknown) => (typeof value === 'bigint' ? Number(value) : value);
const rounded = (value: unknown) => (typeof value === 'number' ? Math.round(value * 1e5) / 1e5 : value);

describe('null, as None in Python, is the default', () => {
  it('of optimizers, layers and hooks', () => {
    within(() => {
      const x = tf.constant([[1, 2]]);
      const y = tf.layers.dense(x, 3, {
        activation: 'relu',
        kernelInitializer: null,
        name: null,
        reuse: null,
      });
      expect(y.name).toBe('dense/Relu:0');
      expect(() => tf.layers.dense(x, 3, { activation: 'rellu' as never })).toThrow(/no activation 'rellu'/);
      expect(new tf.train.AdamOptimizer(0.1, { beta1: null, name: null, useLocking: null }).name).toBe(
        'Adam',
      );
      new tf.train.StopAtStepHook({ numSteps: null, lastStep: 3 });
      new tf.train.StepCounterHook({ everyNSteps: null, everyNSecs: 1, outputDir: null });
      new tf.train.Saver({ varList: null, maxToKeep: null, keepCheckpointEveryNHours: null });
    });
  });

  it('of a training session', async () => {
    const graph = new Graph();
    const five = graph.asDefault(() => tf.constant(5));
    const options = { graph, checkpointDir: null, master: null, scaffold: null, hooks: null, config: null };
    const run = await tf.train.MonitoredTrainingSession({ ...options, log: () => {} }, async (session) =>
      (await session.run(five)).number(),
    );
    expect(run).toBe(5);
  });
});

it('features may be made with `new`, and collections are those of the current graph', () => {
  expect(new tf.FixedLenFeature([2], tf.int64)).toEqual(tf.fixedLenFeature([2], 'int64'));
  expect(new tf.VarLenFeature(tf.string)).toEqual(tf.varLenFeature('string'));
  within((graph) => {
    const inner = tf.nameScope('inner', () => tf.constant(1));
    const outer = tf.constant(2);
    for (const value of [inner, outer]) tf.addToCollection('mine', value);
    expect(tf.getCollection('mine')).toEqual([inner, outer]);
    expect(tf.getCollection('mine', 'inner')).toEqual([inner]);
    expect(graph.getCollection('mine')).toHaveLength(2);
  });
});
