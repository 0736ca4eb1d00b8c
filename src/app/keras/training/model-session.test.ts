/** A model frees its session and its graph: when it is closed, and when it could not be opened. */
import { expect, test } from 'vitest';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { fill } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Input, layers, Sequential } from '../index.js';

const live = () => {
  const { graph, session } = liveHandles();
  return { graph, session };
};
const compile = { optimizer: 'sgd', loss: 'meanSquaredError' } as const;

test('after close', async () => {
  const before = live();
  const model = new Sequential([Input({ shape: [1] }), layers.dense(1)]).compile(compile);
  await model.fit([[1], [2]], [1, 2]);
  const prediction = await model.predict([[1]]);
  expect(live()).toEqual({ graph: before.graph + 1, session: before.session + 1 });
  await model.close();
  expect(live()).toEqual(before);
  expect(prediction.shape).toEqual([1, 1]);
});

test('after a layer failed to build', async () => {
  const before = live();
  const model = new Sequential([
    Input({ shape: [1] }),
    layers.lambda(() => {
      throw new Error('no such layer');
    }),
  ]);
  await expect(model.predict([[1]])).rejects.toThrow('no such layer');
  expect(live()).toEqual(before);
});

test('after an initial value failed', async () => {
  const before = live();
  const kernelInitializer = () => raw.checkNumerics(fill([1, 1], Number.NaN), { message: 'not a number' });
  const model = new Sequential([Input({ shape: [1] }), layers.dense(1, { kernelInitializer })]);
  await expect(model.predict([[1]])).rejects.toThrow('not a number');
  expect(live()).toEqual(before);
});
