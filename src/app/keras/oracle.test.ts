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
  /** Whether examples are sequences of different lengths, with a label for each step. */
  readonly isSequence?: boolean;
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
    // Its validation uses the moving averages of the fused op.
    name: 'images',
    shape: [6, 6, 2],
    classes: 3,
    make: () =>
      new Sequential([
        layers.batchNorm({ name: 'norm' }),
        layers.globalMaxPooling2d(),
        layers.dense(3, { activation: 'softmax', name: 'last' }),
      ]).compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] }),
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
  {
    name: 'masked',
    shape: [5, 2],
    classes: 3,
    isSequence: true,
    make: () =>
      new Sequential([
        Input({ shape: [5, 2] }),
        layers.masking(),
        layers.lstm(4, { returnSequences: true, name: 'first' }),
        layers.dense(3, { activation: 'softmax', name: 'last' }),
      ]).compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] }),
  },
];

/** Sets the steps after the end of each sequence to 0. */
function shortened(x: Tensor<'float32'>): Tensor<'float32'> {
  const [rows = 0, steps = 0, width = 0] = x.shape;
  for (let row = 0; row < rows; row++)
    x.data.fill(0, (row * steps + 1 + (row % steps)) * width, (row + 1) * steps * width);
  return x;
}
const stepClasses = (x: Tensor<'float32'>): number[][] =>
  Array.from({ length: x.shape[0]! }, (_, i) => Array.from({ length: x.shape[1]! }, (__, t) => (i + t) % 3));

interface Trained {
  readonly history: Readonly<Record<string, readonly number[]>>;
  readonly prediction: readonly (readonly number[])[];
}

describe('the same models in Keras', () => {
  const trained: { readonly ours: Trained; readonly theirs: Trained }[] = [];

  beforeAll(async () => {
    const requests: object[] = [];
    const all: Trained[] = [];
    for (const { name, shape, classes, make, isSequence } of cases) {
      await using model = make();
      const [x, xv] = [50, 20].map((rows) => {
        const made = numbers(rows, ...shape);
        return isSequence ? shortened(made) : made;
      }) as [Tensor<'float32'>, Tensor<'float32'>];
      const labels = (of: Tensor<'float32'>) => (isSequence ? stepClasses(of) : classesOf(of, classes));
      const [y, yv] = [labels(x), labels(xv)];
      // Creates the weights.
      await model.predict(xv);
      const weights = Object.fromEntries(
        Object.entries(await model.getWeights()).map(([key, weight]) => [key, weight.toArray()]),
      );
      const validationData = [xv, yv] as const;
      const { history } = await model.fit(x, y, { epochs: 4, batchSize: 8, shuffle: false, validationData });
      const prediction = ((await model.predict(xv, { batchSize: 7 })).toArray() as unknown[]).map(
        (row) => [row].flat(3) as number[],
      );
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
          expect(Math.abs(value - ([theirs.prediction[row]].flat(3) as number[])[column]!)).toBeLessThan(
            1e-4,
          );
    },
  );
});
