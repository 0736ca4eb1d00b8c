/** A layer has one set of weights, however many models contain it. */
import { afterEach, expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { Input, type Layer, layers, type Model, Sequential } from './index.js';

const plan = { optimizer: 'sgd', loss: 'meanSquaredError' } as const;
const x = Array.from({ length: 32 }, (_, i) => [i / 32, 1]);
const y = x.map(([value]) => [value! * 3 + 1]);

const models: Model[] = [];
afterEach(async () => {
  for (const model of models.splice(0)) await model.close();
});
/** A compiled model of two features, closed after the test. */
const sequence = (...elements: Layer[]): Model => {
  const model = new Sequential([Input({ shape: [2] }), ...elements]).compile(plan);
  models.push(model);
  return model;
};
const weight = async (model: Model, name: string) => (await model.getWeights())[name]!.toArray();

test('what one model trains is what another predicts, whatever the layer is called there', async () => {
  const tower = layers.dense(2);
  const full = sequence(tower, layers.dense(1));
  const other = sequence(layers.dense(2), tower);
  const before = await other.predict(x);
  await full.fit(x, y, { epochs: 3 });
  expect(await weight(other, 'dense_1/kernel')).toEqual(await weight(full, 'dense/kernel'));
  expect((await other.predict(x)).toArray()).not.toEqual(before.toArray());
  await other.fit(x, x, { epochs: 3 });
  expect(await weight(full, 'dense/kernel')).toEqual(await weight(other, 'dense_1/kernel'));
  await other.setWeights({ 'dense_1/bias': [5, 6] });
  expect(await weight(full, 'dense/bias')).toEqual([5, 6]);
});

test('a model that joins two that are open has the weights of both', async () => {
  const [first, second] = [layers.dense(2), layers.dense(2)];
  const [a, b] = [sequence(first), sequence(second)];
  const [left, right] = [await weight(a, 'dense/kernel'), await weight(b, 'dense/kernel')];
  const both = sequence(first, second);
  expect(await weight(both, 'dense/kernel')).toEqual(left);
  expect(await weight(both, 'dense_1/kernel')).toEqual(right);
});

test('moving averages are shared as well, and a callback sees the current step', async () => {
  const norm = layers.batchNorm();
  const full = sequence(norm, layers.dense(1));
  const part = sequence(norm);
  const seen: unknown[] = [];
  const watch = { onBatchEnd: async () => void seen.push(await weight(part, 'batch_normalization/gamma')) };
  await full.fit(x, y, { batchSize: 16, callbacks: [watch] });
  expect(seen[0]).not.toEqual(seen[1]);
  expect(await weight(full, 'batch_normalization/gamma')).toEqual(seen[1]);
  expect(await weight(part, 'batch_normalization/moving_mean')).toEqual(
    await weight(full, 'batch_normalization/moving_mean'),
  );
});

test('two models that train at the same time lose no step', async () => {
  // The gradient of the mean is 1, whatever the weights: every step subtracts 0.01 from the bias.
  const shift = layers.dense(1, { kernelInitializer: 0 });
  const [a, b] = [sequence(shift), sequence(shift)];
  for (const model of [a, b]) model.compile({ optimizer: 'sgd', loss: (_labels, p) => p.mean() });
  await a.predict(x);
  await Promise.all([a, b].map((model) => model.fit(x, y, { batchSize: 4, epochs: 2 })));
  expect((await a.getWeights())['dense/bias']!.data[0]).toBeCloseTo(-0.01 * 32, 5);
  expect(await weight(b, 'dense/bias')).toEqual(await weight(a, 'dense/bias'));
});

test('the weights stay while another model contains the layer', async () => {
  const tower = layers.dense(2);
  const full = sequence(tower, layers.dense(1));
  const part = sequence(tower);
  await full.fit(x, y);
  const trained = await weight(full, 'dense/kernel');
  const own = await weight(full, 'dense_1/kernel');
  await full.close();
  expect(await weight(part, 'dense/kernel')).toEqual(trained);
  await part.close();
  expect(await weight(full, 'dense/kernel')).toEqual(trained);
  expect(await weight(full, 'dense_1/kernel')).not.toEqual(own);
});

test('a layer whose weights would have another shape is an error', async () => {
  const tower = layers.dense(2, { name: 'tower' });
  await sequence(tower).predict(x);
  const other = sequence(layers.dense(5), tower);
  await expect(other.predict(x)).rejects.toThrow(
    described(
      /Layer tower has the weights float32 \[2, 2\], float32 \[2\] in another model, here .* float32 \[5, 2\].*\n.*layer of its own/s,
    ),
  );
});
