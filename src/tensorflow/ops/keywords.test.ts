/** TensorFlow's keyword arguments: each call by name gives the value and the name that Python's call gives. */
import { expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { Session } from '../session/session.js';
import * as tf from './index.js';

const M = [
  [1, 2],
  [3, 4],
];

/** By name, by position, and the name of the op or of its scope. */
const CALLS: Record<string, () => readonly [Output, Output]> = {
  argMax: () => [tf.argMax(M, { axis: 1, outputType: 'int32', name: 'n' }), tf.argMax(M, 1, 'int32')],
  concat: () => [tf.concat([M, M], { axis: 1, name: 'n' }), tf.concat([M, M], 1)],
  cumsum: () => [tf.cumsum(M, { axis: 1, name: 'n' }), tf.cumsum(M, 1)],
  expandDims: () => [tf.expandDims(M, { axis: 0, name: 'n' }), tf.expandDims(M, 0)],
  l2Normalize: () => [tf.l2Normalize(M, { axis: 1, name: 'n' }), tf.l2Normalize(M, 1)],
  leakyRelu: () => [tf.leakyRelu(M, { alpha: 0.5, name: 'n' }), tf.leakyRelu(M, 0.5)],
  logSoftmax: () => [tf.logSoftmax(M, { name: 'n' }), tf.logSoftmax(M)],
  randomNormal: () => [
    tf.randomNormal([2], { mean: 3, stddev: 0, name: 'x' }),
    tf.randomNormal([2], 3, 0, { name: 'n' }),
  ],
  softmax: () => [tf.softmax(M, { axis: 0, name: 'n' }), tf.softmax(M, 0)],
  'softmax of the default axis': () => [tf.softmax(M, null as never, { name: 'n' }), tf.softmax(M)],
  stack: () => [tf.stack([M, M], { axis: 1, name: 'n' }), tf.stack([M, M], 1)],
  sum: () => [tf.sum(M, { axis: [1], keepdims: true, name: 'n' }), tf.sum(M, 1, true)],
  swish: () => [tf.swish(M, { name: 'n' }), tf.swish(M)],
  transpose: () => [tf.transpose(M, { perm: [1, 0], name: 'n' }), tf.transpose(M, [1, 0])],
  zeros: () => [tf.zeros([2], { dtype: 'int32', name: 'n' }), tf.zeros([2], 'int32')],
};

test.each(Object.entries(CALLS))('%s takes its arguments by name', async (title, build) => {
  using graph = new Graph();
  const [byName, byPosition] = graph.asDefault(build);
  await using session = Session.open({ graph });
  const [one, other] = await session.run([byName, byPosition]);
  expect(one.toArray()).toEqual(other.toArray());
  expect(byName.dtype).toBe(byPosition.dtype);
  if (title !== 'randomNormal') expect(byName.op.name).toMatch(/^n(\/|$)/);
});

test('a group takes ops, a list of them, and a name', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const [a, b] = [tf.noOp(), tf.constant(1)];
    expect(tf.group(a).controlInputs).toEqual([a]);
    expect(tf.group(a, b).controlInputs).toHaveLength(2);
    expect(tf.group([a, b], { name: 'both' }).name).toBe('both');
  });
});
