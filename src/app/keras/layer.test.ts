/** Layers of users: their variables belong to the layer, and training and evaluation share them. */
import { expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { dense } from '../../tensorflow/layers/dense.js';
import { add, mul } from '../../tensorflow/ops/math.js';
import { newVariable, variable } from '../../tensorflow/variables/variable-scope.js';
import { Input, Layer, layers, Sequential } from './index.js';

const x = Array.from({ length: 8 }, (_, i) => [i / 8]);
const y = x.map(([value]) => [value! * 3 + 1]);

const scale = () =>
  new Layer({ kind: 'scale', body: ([input]) => mul(input!, variable('factor', { initializer: 2 })) });

test.each([
  [
    'a layer that passes its name',
    () => [new Layer({ kind: 'mine', body: ([input], { name }) => dense(input!, 1, { name }) })],
    ['mine/mine/kernel', 'mine/mine/bias'],
  ],
  [
    'a lambda with a layer',
    () => [layers.lambda((input) => dense(dense(input, 2), 1))],
    ['lambda/dense/kernel', 'lambda/dense/bias', 'lambda/dense_1/kernel', 'lambda/dense_1/bias'],
  ],
  [
    'layers of one kind with a variable each',
    () => [scale(), scale(), layers.dense(1)],
    ['scale/factor', 'scale_1/factor', 'dense/kernel', 'dense/bias'],
  ],
  [
    'an activation with a variable',
    () => [layers.dense(1), layers.activation((input) => add(input, variable('shift', { initializer: 0 })))],
    ['dense/kernel', 'dense/bias', 'activation/shift'],
  ],
] as const)('%s evaluates the weights that it trains', async (_title, make, names) => {
  await using model = new Sequential([Input({ shape: [1] }), ...make()], { seed: 1 });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  const before = await model.evaluate(x, y);
  const { history } = await model.fit(x, y, { epochs: 50, batchSize: 8 });
  expect(Object.keys(await model.getWeights())).toEqual(names);
  const after = await model.evaluate(x, y);
  expect(after.loss).toBeLessThan(before.loss! / 2);
  expect(after.loss).toBeLessThanOrEqual(history.loss!.at(-1)!);
});

test('a layer that does not share its variables is an error', async () => {
  await using model = new Sequential([
    Input({ shape: [1] }),
    layers.lambda((input) => mul(input, newVariable(1, { name: 'factor', dtype: 'float32' })), {
      name: 'own',
    }),
  ]).compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await expect(model.fit(x, y)).rejects.toThrow(
    described(/Layer own does not share its variables.*created own_1\/factor.*\n.*tf\.variable/s),
  );
});
