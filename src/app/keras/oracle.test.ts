/** The same models in Keras: the values of each epoch and the predictions are equal. */
import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../test/python.js';
import * as losses from '../../tensorflow/layers/losses/index.js';
import { l2 } from '../../tensorflow/layers/regularizers.js';
import { AdamOptimizer } from '../../tensorflow/optimizers/rules/adam.js';
import { MomentumOptimizer } from '../../tensorflow/optimizers/rules/momentum.js';
import { seededRandom } from '../../tensorflow/tensor/seeded-random.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { Input, layers, Model, Sequential } from './index.js';

const random = seededRandom(5);
const numbers = (...shape: number[]): Tensor<'float32'> =>
  Tensor.of(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random() * 2 - 1),
    { shape },
  );
/** Classes that depend on the examples, so that training has something to learn. */
const classesOf = (x: Tensor<'float32'>, count: number): number[] => {
  const width = x.size / (x.shape[0] as number);
  return Array.from({ length: x.shape[0] as number }, (_, i) => {
    const sum = x.data.subarray(i * width, (i + 1) * width).reduce((a, b, j) => a + b * ((j % 3) - 0.9), 0);
    return Math.min(count - 1, Math.max(0, Math.floor(sum + count / 2)));
  });
};

interface Case {
  readonly name: string;
  readonly shape: readonly number[];
  readonly classes: number;
  readonly make: () => Model;
}

const cases: readonly Case[] = [
  {
    name: 'dense',
    shape: [6],
    classes: 3,
    make: () =>
      new Sequential([
        Input({ shape: [6] }),
        layers.dense(16, { activation: 'relu', kernelRegularizer: l2(0.01), name: 'first' }),
        layers.batchNorm({ name: 'norm' }),
        layers.dense(3, { activation: 'softmax', name: 'last' }),
      ]).compile({
        optimizer: new AdamOptimizer(0.01, { epsilon: 1e-7 }),
        loss: 'sparseCategoricalCrossentropy',
        metrics: ['accuracy'],
      }),
  },
  {
    name: 'conv',
    shape: [8, 8, 1],
    classes: 3,
    make: () =>
      new Sequential([
        layers.conv2d(4, 3, { padding: 'same', activation: 'relu', name: 'first' }),
        layers.maxPooling2d(),
        layers.flatten(),
        layers.dropout(0),
        layers.dense(3, { name: 'last' }),
      ]).compile({
        optimizer: new MomentumOptimizer(0.1, 0.9),
        loss: (labels, logits) => losses.sparseSoftmaxCrossEntropy(labels.cast('int32'), logits),
        metrics: ['accuracy'],
      }),
  },
  {
    name: 'functional',
    shape: [5],
    classes: 2,
    make: () => {
      const x = Input({ shape: [5] });
      const shared = layers.dense(8, { activation: 'tanh', name: 'shared' });
      const first = shared.apply(x);
      const second = shared.apply(layers.dense(5, { name: 'first' }).apply(x));
      const outputs = layers
        .dense(1, { activation: 'sigmoid', name: 'last' })
        .apply(layers.concatenate().apply([first, second]));
      return new Model({ inputs: x, outputs }).compile({
        optimizer: 'adam',
        loss: 'binaryCrossentropy',
        metrics: ['accuracy'],
      });
    },
  },
];

interface Trained {
  readonly history: Readonly<Record<string, readonly number[]>>;
  readonly prediction: readonly (readonly number[])[];
}

describe('the same models in Keras', () => {
  const trained: { readonly ours: Trained; readonly theirs: Trained }[] = [];

  beforeAll(async () => {
    const requests: object[] = [];
    const all: Trained[] = [];
    for (const { name, shape, classes, make } of cases) {
      await using model = make();
      const [x, xv] = [numbers(50, ...shape), numbers(20, ...shape)];
      const [y, yv] = [classesOf(x, classes), classesOf(xv, classes)];
      // Creates the weights.
      await model.predict(xv);
      const weights = Object.fromEntries(
        Object.entries(await model.getWeights()).map(([key, weight]) => [key, weight.toArray()]),
      );
      const validationData = [xv, yv] as const;
      const { history } = await model.fit(x, y, { epochs: 4, batchSize: 8, shuffle: false, validationData });
      const prediction = (await model.predict(xv, { batchSize: 7 })).toArray() as number[][];
      all.push({ history, prediction });
      const data = { x: x.toArray(), y, xv: xv.toArray(), yv };
      requests.push({ case: name, ...data, weights, epochs: 4, batchSize: 8 });
    }
    const theirs = await askPython<readonly Trained[]>(
      new URL('./testing/models.py', import.meta.url),
      requests,
    );
    trained.push(...all.map((ours, i) => ({ ours, theirs: theirs[i]! })));
  });

  test.each(cases.map(({ name }, i) => [name, i] as const))(
    'have the same losses after each epoch: %s',
    (_name, i) => {
      const { ours, theirs } = trained[i]!;
      const { history, prediction } = ours;
      expect(Object.keys(history)).toEqual(['loss', 'accuracy', 'val_loss', 'val_accuracy']);
      for (const [key, values] of Object.entries(history)) {
        expect(values).toHaveLength(4);
        for (const [epoch, value] of values.entries())
          expect(Math.abs(value - theirs.history[key]![epoch]!), key).toBeLessThan(1e-5);
      }
      expect(history.loss!.at(-1)).toBeLessThan(history.loss![0]!);
      for (const [row, values] of prediction.entries())
        for (const [column, value] of values.entries())
          expect(Math.abs(value - theirs.prediction[row]![column]!)).toBeLessThan(1e-4);
    },
  );
});
