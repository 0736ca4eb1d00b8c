/** Conversion of examples and labels to the dtype of the model. */
import { expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Input, layers, Sequential } from '../index.js';
import { asTensor } from './data.js';

test.each<[DType, readonly (number | bigint | boolean)[], DType, readonly unknown[]]>([
  ['uint8', [0, 255], 'float32', [0, 255]],
  ['float32', [-3, 7], 'int32', [-3, 7]],
  ['float64', [0.5, 1e300], 'float32', [0.5, Number.POSITIVE_INFINITY]],
  ['bool', [true, false], 'float32', [1, 0]],
  ['float32', [1, 0], 'bool', [true, false]],
  ['int64', [5n, -1n], 'float32', [5, -1]],
  ['int32', [5, -1], 'int64', [5n, -1n]],
  ['uint16', [1, 2], 'float16', [1, 2]],
  ['float16', [1.5, 2], 'float32', [1.5, 2]],
  ['float16', [1, 2], 'uint16', [1, 2]],
])('converts %s %s to %s', (dtype, values, target, expected) => {
  const converted = asTensor(Tensor.of(values, { dtype }).reshape([2, 1]), target);
  expect(converted.dtype).toBe(target);
  expect(converted.toArray()).toEqual(expected.map((value) => [value]));
});

test.each<[DType, number | bigint, DType]>([
  ['float32', 0.5, 'int32'],
  ['float32', Number.NaN, 'int32'],
  ['float64', 2 ** 40, 'int32'],
  ['int32', -1, 'uint8'],
  ['int32', 300, 'uint8'],
  ['int32', 9, 'int4'],
  ['int64', -1n, 'uint64'],
  ['uint8', 2, 'bool'],
])('rejects %s %s as %s', (dtype, value, target) => {
  expect(() => asTensor(Tensor.of([value], { dtype }), target)).toThrow(/out of range|cannot be an element/);
});

test('converts 10,000 images without nested arrays', () => {
  const images = Tensor.of(new Uint8Array(7_840_000).fill(7), { shape: [10_000, 784] });
  const begun = process.cpuUsage();
  const converted = asTensor(images, 'float32');
  const { user, system } = process.cpuUsage(begun);
  expect(converted.data.at(-1)).toBe(7);
  expect((user + system) / 1e6).toBeLessThan(0.7);
});

test('labels of another dtype than in the first call are converted, or the error names both', async () => {
  await using model = new Sequential([Input({ shape: [1] }), layers.dense(1)]);
  const plan = { optimizer: 'sgd', loss: 'meanSquaredError' } as const;
  model.compile(plan);
  const x = [[1], [2]];
  const first = await model.evaluate(x, Int32Array.of(1, 2));
  expect(await model.evaluate(x, Float32Array.of(1, 2))).toEqual(first);
  await expect(model.evaluate(x, Float32Array.of(0.9, 1.9))).rejects.toThrow(
    described(/labels y are float32, those of the first call were int32.*\n.*as float32, or call compile/s),
  );
  model.compile(plan);
  expect((await model.evaluate(x, Float32Array.of(0.9, 1.9))).loss).toBeGreaterThan(0);
});
