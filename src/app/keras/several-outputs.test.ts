/** Models with several outputs: a loss for each or one for all, labels in a list or by name. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import { loadSavedModel } from '../../training/saved-model/loading/loader.js';
import { Input, layers, Model } from './index.js';

const x = Array.from({ length: 64 }, (_, i) => [Math.sin(i), Math.cos(3 * i)]);
const sums = x.map(([a = 0, b = 0]) => a + b);
const signs = x.map(([a = 0]) => (a > 0 ? 1 : 0));

function make() {
  const input = Input({ shape: [2] });
  const hidden = layers.dense(8, { activation: 'relu' }).apply(input);
  const sum = layers.dense(1, { name: 'sum' }).apply(hidden);
  const sign = layers.dense(2, { name: 'sign', activation: 'softmax' }).apply(hidden);
  return new Model({ inputs: input, outputs: [sum, sign], seed: 3 });
}

test('predict returns a list, in the order of the outputs', async () => {
  await using model = make();
  const [sum, sign] = await model.predict(x);
  expect([sum.shape, sign.shape]).toEqual([
    [64, 1],
    [64, 2],
  ]);
});

test('a loss for each output trains all; the results have the names of the outputs', async () => {
  await using model = make();
  model.compile({
    optimizer: 'adam',
    loss: { sign: 'sparseCategoricalCrossentropy', sum: 'meanSquaredError' },
    metrics: ['accuracy'],
  });
  const before = await model.evaluate(x, [sums, signs]);
  const { history } = await model.fit(
    x,
    { sign: signs, sum: sums },
    { epochs: 40, validationData: [x, [sums, signs]] },
  );
  const after = await model.evaluate(x, [sums, signs]);
  expect(Object.keys(after)).toEqual(['loss', 'sum_loss', 'sum_accuracy', 'sign_loss', 'sign_accuracy']);
  expect(after.loss).toBeCloseTo(after.sum_loss! + after.sign_loss!, 4);
  expect(after.sum_loss).toBeLessThan(before.sum_loss!);
  expect(after.sign_loss).toBeLessThan(before.sign_loss!);
  expect(history.val_loss?.at(-1)).toBeCloseTo(after.loss!, 4);
});

test('one loss is that of every output, and the export has them all', async () => {
  const scratch = mkdtempSync(join(tmpdir(), 'shoal-outputs-'));
  try {
    await using model = make();
    model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
    await model.fit(x, [sums, x]);
    const [sum] = await model.predict(x);
    const directory = await model.save(join(scratch, '1'));
    await using loaded = await loadSavedModel(directory);
    const found = await loaded.signatures.serving_default!({ x });
    expect(Object.keys(found).sort()).toEqual(['sign', 'sum']);
    expect((found.sum as Tensor).toArray()).toEqual(sum.toArray());
  } finally {
    rmSync(scratch, { recursive: true });
  }
});

test('losses and labels that do not match the outputs are errors', async () => {
  await using model = make();
  const compile = (loss: object) => () => model.compile({ optimizer: 'sgd', loss } as never);
  expect(compile(['huber'])).toThrow(described(/losses for sum; the outputs are sum, sign\n.*one for each/s));
  expect(compile({ sum: 'huber', sgin: 'huber' })).toThrow('losses for sum, sgin; the outputs are sum, sign');
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await expect(model.fit(x, [sums])).rejects.toThrow(
    described(/has the outputs sum, sign; fit got \d+ labels\n.*sum: …/s),
  );
  await expect(model.evaluate(x, { sum: sums })).rejects.toThrow(
    'has the outputs sum, sign; the labels are sum',
  );
  expect(() => new Model({ inputs: Input({ shape: [1] }), outputs: [3] as never })).toThrow(
    described(/outputs of the model must be what .*apply returns.*\n/),
  );
});
