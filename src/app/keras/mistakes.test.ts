/** Mistakes of callers: each message says what the user did. */
import { expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { argMax, cast } from '../../tensorflow/ops/math.js';
import { fromTensorSlices } from '../../training/input/dataset/sources.js';
import { callbacks, Input, layers, Sequential } from './index.js';

const make = () =>
  new Sequential([Input({ shape: [2] }), layers.dense(3)]).compile({
    optimizer: 'sgd',
    loss: 'meanSquaredError',
  });
const x = [[1, 2]];

test('predict of a dataset, and leased records, are errors that say what to do', async () => {
  await using model = make();
  const dataset = fromTensorSlices({ x, y: [1] }).batch(1);
  await expect(model.predict(dataset as never)).rejects.toThrow(
    described(/predict takes examples in memory.*\n.*each of its batches/s),
  );
  await expect(model.fit(dataset as never, [1], {})).rejects.toThrow('takes no labels: fit(source, options)');
  await expect(model.fit(dataset, { sampleWeight: [1] })).rejects.toThrow(
    described(/sampleWeight of fit is for arrays.*\n/),
  );
});

test('wrong shapes name the layer', async () => {
  await using model = new Sequential([Input({ shape: [2] }), layers.conv2d(3, 2)]);
  await expect(model.predict(x)).rejects.toThrow(/Layer conv2d.*rank 4/);
  await using other = new Sequential([Input({ shape: [2] }), layers.reshape([3], { name: 'three' })]);
  await expect(other.predict(x)).rejects.toThrow(/three/);
  await expect(make().predict([[1, 2, 3]])).rejects.toThrow(
    /input 'x' have shape \[1, 3\]; the model takes \[\?, 2\]/,
  );
});

test.each([
  ['optimizer', 'adm', 'adam'],
  ['loss', 'meansquarederor', 'meanSquaredError'],
  ['loss', 'binary_crossentropi', 'binaryCrossentropy'],
] as const)('an unknown %s is an error with a suggestion', (option, given, meant) => {
  const options = { optimizer: 'sgd', loss: 'mse', [option]: given } as never;
  expect(() => make().compile(options)).toThrow(
    described(new RegExp(`no ${option} '${given}'\\n.*Did you mean '${meant}'`, 's')),
  );
});

test('one-hot labels of a loss of class numbers name the other loss', async () => {
  await using model = make().compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy' });
  await expect(model.fit(x, [[0, 1, 0]], { verbose: false })).rejects.toThrow(
    described(/labels of this loss are numbers of classes.*\[\?, 3\]\n.*'categoricalCrossentropy'/s),
  );
});

test.each([
  [() => callbacks.earlyStopping({ moniter: 'loss' } as never), 'earlyStopping', 'monitor'],
  [() => callbacks.reduceLROnPlateau({ min_lr: 1 } as never), 'reduceLROnPlateau', 'minLr'],
  [
    () => callbacks.modelCheckpoint('{epoch}', { saveBestonly: true } as never),
    'modelCheckpoint',
    'saveBestOnly',
  ],
  [() => callbacks.csvLogger('a.csv', { seperator: ';' } as never), 'csvLogger', 'separator'],
  [() => callbacks.lambdaCallback({ onEpochends: () => {} } as never), 'lambdaCallback', 'onEpochEnd'],
])('a misspelled option of a callback is an error', (create, name, meant) => {
  expect(create).toThrow(
    described(new RegExp(`${name} has an unknown option.*Did you mean '${meant}'`, 's')),
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
