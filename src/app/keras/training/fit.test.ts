/** What `fit` trains on: arrays, datasets and generators; parts of them; weights of examples and classes. */
import { expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { fromTensorSlices } from '../../../training/input/dataset/sources.js';
import { callbacks, Input, layers, Sequential } from '../index.js';

const x = Array.from({ length: 24 }, (_, i) => [Math.sin(i), Math.cos(2 * i)]);
const y = x.map(([a = 0, b = 0]) => [a - 2 * b]);
const rows = (from: number, to: number) => ({
  x: Tensor.of(x.slice(from, to)),
  y: Tensor.of(y.slice(from, to)),
});
const once = { shuffle: false, batchSize: 8 } as const;

/** Two models of the same numbers have the same initial weights. */
const make = () =>
  new Sequential([Input({ shape: [2] }), layers.dense(4, { activation: 'tanh' }), layers.dense(1)], {
    seed: 4,
  }).compile({ optimizer: 'adam', loss: 'mse', metrics: ['mae'] });

function* batches() {
  for (let i = 0; i < 24; i += 8) yield [x.slice(i, i + 8), y.slice(i, i + 8)] as const;
}
async function* later() {
  for (let i = 0; i < 24; i += 8) yield { x: x.slice(i, i + 8), y: y.slice(i, i + 8) };
}

test('a dataset, a generator and arrays train alike, and evaluate alike', async () => {
  await using plain = make();
  const { history } = await plain.fit(x, y, { ...once, epochs: 3, validationData: [x, y] });
  const sources = {
    'a dataset': () => fromTensorSlices(rows(0, 24)).batch(8),
    'a generator': batches,
    'an asynchronous generator': later,
  };
  for (const [name, source] of Object.entries(sources)) {
    await using model = make();
    const found = await model.fit(source, { epochs: 3, validationData: source });
    expect(Object.keys(found.history), name).toEqual(Object.keys(history));
    for (const [key, values] of Object.entries(history))
      for (const [i, value] of values.entries())
        expect(found.history[key]![i], `${name}: ${key}`).toBeCloseTo(value, 5);
    expect((await model.evaluate(source)).loss, name).toBeCloseTo(history.val_loss!.at(-1)!, 5);
  }
});

test('stepsPerEpoch divides one pass, and an input that ends too early is an error', async () => {
  await using model = make();
  const repeated = () => fromTensorSlices(rows(0, 24)).repeat().batch(8);
  const steps: number[] = [];
  const count = callbacks.lambdaCallback({ onBatchEnd: (batch) => void steps.push(batch) });
  const { epoch } = await model.fit(repeated, {
    epochs: 4,
    initialEpoch: 2,
    stepsPerEpoch: 2,
    callbacks: [count],
  });
  expect({ epoch, steps }).toEqual({ epoch: [2, 3], steps: [0, 1, 0, 1] });
  await expect(model.fit(batches, { epochs: 2, stepsPerEpoch: 2 })).rejects.toThrow(
    described(/input ended after 1 of 2 batches of epoch 2\n.*repeats/s),
  );
  await expect(model.fit(batches(), { epochs: 2 })).rejects.toThrow('no batch in epoch 2');
  await expect(model.fit(x, y, { initialEpoch: 3, epochs: 2 })).rejects.toThrow('ends after epoch 2');
});

test('validationSplit evaluates the end of the arrays, and does not train on it', async () => {
  await using split = make();
  await using given = make();
  const a = await split.fit(x, y, { ...once, validationSplit: 0.25 });
  const validationData = [x.slice(18), y.slice(18)] as const;
  const b = await given.fit(x.slice(0, 18), y.slice(0, 18), { ...once, validationData });
  expect(a.history).toEqual(b.history);
  await expect(split.fit(x, y, { validationSplit: 1 })).rejects.toThrow('examples on both sides');
});

test('weights of examples are those of their losses: 0 leaves examples out', async () => {
  await using weighted = make();
  await using part = make();
  const sampleWeight = x.map((_, i) => (i < 12 ? 2 : 0));
  // 12 examples of weight 2 among 24: the mean is that of the first 12.
  const a = await weighted.fit(x, y, { ...once, batchSize: 24, sampleWeight });
  const b = await part.fit(x.slice(0, 12), y.slice(0, 12), { ...once, batchSize: 12 });
  expect(a.history.loss![0]).toBeCloseTo(b.history.loss![0]!, 5);
  expect((await weighted.evaluate(x, y)).loss).toBeCloseTo((await part.evaluate(x, y)).loss!, 5);
  const { loss } = await weighted.evaluate(x, y, { sampleWeight });
  expect(loss).toBeCloseTo((await part.evaluate(x.slice(0, 12), y.slice(0, 12))).loss!, 5);
});

test('classWeight is the weight of each example of the class', async () => {
  const labels = x.map((_, i) => i % 3);
  const classes = () =>
    new Sequential([Input({ shape: [2] }), layers.dense(3, { activation: 'softmax' })], { seed: 1 }).compile({
      optimizer: 'sgd',
      loss: 'sparse_categorical_crossentropy',
    });
  await using byClass = classes();
  await using byExample = classes();
  const a = await byClass.fit(x, labels, { ...once, epochs: 2, classWeight: { 1: 5, 2: 0 } });
  const sampleWeight = labels.map((label) => [1, 5, 0][label]!);
  const b = await byExample.fit(x, labels, { ...once, epochs: 2, sampleWeight });
  expect(a.history.loss![1]).toBeCloseTo(b.history.loss![1]!, 5);
  await expect(byClass.fit(x, labels, { classWeight: { 3: 1 } })).rejects.toThrow(
    'classes are numbered from 0 to 2',
  );
});

test('the best weights are restored, and the learning rate falls on a plateau', async () => {
  await using model = make().compile({ optimizer: 'sgd', loss: 'mse' });
  const rates: number[] = [];
  const losses: number[] = [];
  await model.fit(x, y, {
    ...once,
    epochs: 6,
    validationData: [x, y.map(([value]) => [-value!])],
    callbacks: [
      callbacks.reduceLROnPlateau({ patience: 1, factor: 0.5, cooldown: 2 }),
      callbacks.earlyStopping({ patience: 4, restoreBestWeights: true }),
      callbacks.lambdaCallback({
        onEpochEnd: async (_epoch, logs, control) => {
          rates.push(await control.learningRate());
          losses.push(logs.val_loss!);
        },
      }),
    ],
  });
  // The validation becomes worse from the first epoch on.
  expect(rates.map((rate) => Number(rate.toFixed(6)))).toEqual([0.01, 0.005, 0.005, 0.0025, 0.0025]);
  const { loss } = await model.evaluate(
    x,
    y.map(([value]) => [-value!]),
  ); // prettier-ignore
  expect(loss).toBeCloseTo(losses[0]!, 5);
  await model.compile({
    optimizer: [{ use: (await import('../../../tensorflow/optimizers/index.js')).sgd(0.1) }],
    loss: 'mse',
  });
  await expect(
    model.fit(x, y, {
      epochs: 3,
      validationData: [x, y.map(([v]) => [-v!])],
      callbacks: [callbacks.reduceLROnPlateau({ patience: 1 })],
    }), // prettier-ignore
  ).rejects.toMatchObject({ code: 'SHOAL_UNSUPPORTED' });
});
