/** Misspelled options of layers are errors: programs in JavaScript would ignore them. */
import { expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { layers as keras } from '../../app/keras/index.js';
import { Graph } from '../graph/graph.js';
import { placeholder } from '../ops/creation.js';
import * as layers from './layers.js';

const rows = () => placeholder({ shape: [null, 4] });
const images = () => placeholder({ shape: [null, 8, 8, 1] });

test.each([
  ['dense', () => layers.dense(rows(), 3, { activaton: 'relu' } as never)],
  ['conv2d', () => layers.conv2d(images(), 3, 2, { stride: 2 } as never)],
  ['maxPooling2d', () => layers.maxPooling2d(images(), 2, 2, { pading: 'same' } as never)],
  ['flatten', () => layers.flatten(rows(), { nam: 'flat' } as never)],
  ['dropout', () => layers.dropout(rows(), { keep: 0.5 } as never)],
  ['embedding', () => layers.embedding(rows(), 3, 2, { initializer: 0 } as never)],
  ['batchNorm', () => layers.batchNorm(rows(), { isTraining: true } as never)],
  ['layerNorm', () => layers.layerNorm(rows(), { eps: 1 } as never)],
])('of tf.layers.%s', (name, build) => {
  using graph = new Graph();
  expect(() => graph.asDefault(build)).toThrow(
    described(new RegExp(`Layer ${name} has an unknown option '\\w+'\\n.*The options there are .*name`, 's')),
  );
});

test.each([
  ['dense', () => keras.dense(3, { activaton: 'relu' } as never)],
  ['conv2d', () => keras.conv2d(3, 2, { kernel_initializer: 0 } as never)],
  ['max_pooling2d', () => keras.maxPooling2d(2, 2, { pading: 'same' } as never)],
  ['dropout', () => keras.dropout(0.5, { training: true } as never)],
  ['batch_normalization', () => keras.batchNorm({ reuse: true } as never)],
  ['lambda', () => keras.lambda((x) => x, { names: 'a' } as never)],
  ['concatenate', () => keras.concatenate({ axes: 1 } as never)],
])('of a layer of a model: %s', (name, make) => {
  expect(make).toThrow(new RegExp(`Layer ${name} has an unknown option`));
});
