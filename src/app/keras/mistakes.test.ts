/** Mistakes of callers: each message says what the user did. */
import { expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { argMax, cast } from '../../tensorflow/ops/math.js';
import { fromTensorSlices } from '../../training/input/dataset/sources.js';
import { Input, layers, Sequential } from './index.js';

const make = () =>
  new Sequential([Input({ shape: [2] }), layers.dense(3)]).compile({
    optimizer: 'sgd',
    loss: 'meanSquaredError',
  });
const x = [[1, 2]];

test.each(['fit', 'evaluate', 'predict'] as const)('%s of a dataset points to jobs', async (method) => {
  await using model = make();
  const call = model[method].bind(model) as (given: unknown) => Promise<unknown>;
  await expect(call(fromTensorSlices({ x, y: [1] }).batch(1))).rejects.toThrow(
    described(new RegExp(`${method} takes examples in memory, not a dataset\\n.*toJob`, 's')),
  );
});

test('labels are not forgotten', async () => {
  await using model = make();
  const train = model.fit.bind(model) as (given: unknown) => Promise<unknown>;
  await expect(train(x)).rejects.toThrow(described(/fit got no labels\n.*fit\(x, y\)/s));
});

test('setWeights names the weight whose shape is wrong', async () => {
  await using model = make();
  await expect(model.setWeights({ 'dense/kernel': [[1, 2]] })).rejects.toThrow(
    described(/weight 'dense\/kernel' has shape \[2, 3\]; setWeights got \[1, 2\]\n/),
  );
  await expect(model.setWeights([[[1]]] as never)).rejects.toThrow(
    described(/takes the weights by name.*\n.*dense\/kernel, dense\/bias/s),
  );
});

test('a fraction for an integer input names the input', async () => {
  await using model = new Sequential([Input({ shape: [1], dtype: 'int64' }), layers.embedding(10, 2)]);
  await expect(model.predict([[4.5]])).rejects.toThrow(
    described(/input 'x', which is int64, are wrong: 4\.5 is not an integer.*\n.*Round it/s),
  );
});

test('a loss through argMax names the op that cuts the path', async () => {
  await using model = make();
  model.compile({ optimizer: 'sgd', loss: (y, p) => cast(argMax(p, 1), 'float32').sub(y).square().mean() });
  await expect(model.fit(x, [1])).rejects.toThrow(
    described(/no gradient for any.*cut by ArgMax '.*'\n.*also after a cast/s),
  );
});
