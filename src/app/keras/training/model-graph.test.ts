/** The updates of moving averages run once per step, however often the graph was built. */
import { expect, test } from 'vitest';
import { Input, layers, Sequential } from '../index.js';

const x = [[1], [2], [3], [6]];
const y = [[1], [2], [3], [4]];
/** The mean of the batch is 3. */
const movedOnce = 3 * (1 - 0.99);
const once = { epochs: 1, batchSize: 4, shuffle: false } as const;
const plan = { optimizer: 'sgd', loss: 'meanSquaredError' } as const;

const make = () => new Sequential([Input({ shape: [1] }), layers.batchNorm(), layers.dense(1)]).compile(plan);

const movingMean = async (model: Sequential): Promise<number> =>
  (await model.getWeights())['batch_normalization/moving_mean']!.data[0] as number;

test('after compile was called again', async () => {
  await using model = make();
  await model.evaluate(x, y);
  model.compile(plan);
  await model.fit(x, y, once);
  expect(await movingMean(model)).toBeCloseTo(movedOnce, 6);
});

test('after labels whose shape does not fit', async () => {
  await using model = make();
  await expect(
    model.fit(
      x,
      y.map(() => [1, 2, 3]),
      once,
    ),
  ).rejects.toThrow();
  await model.fit(x, y, once);
  expect(await movingMean(model)).toBeCloseTo(movedOnce, 6);
});

test('when fit and evaluate are called at the same time', async () => {
  await using model = make();
  await Promise.all([model.evaluate(x, y), model.fit(x, y, once)]);
  expect(await movingMean(model)).toBeCloseTo(movedOnce, 6);
});
