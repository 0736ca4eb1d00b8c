/** Models that are saved train further as if they had not been; Python reads the architecture and the checkpoint. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import { askPython } from '../../../../test/python.js';
import { readEvents } from '../../../tensorflow/formats/index.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { mul } from '../../../tensorflow/ops/math.js';
import { adam } from '../../../tensorflow/optimizers/index.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { callbacks, Input, Layer, layers, loadModel, Model, modelFromJson, Sequential } from '../index.js';

const x = Array.from({ length: 24 }, (_, i) => [[Math.sin(i)], [Math.cos(2 * i)], [Math.sin(3 * i)]]);
const y = x.map(([[a = 0] = []]) => [a]);
const once = { shuffle: false, batchSize: 8 } as const;

let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'shoal-keras-saving-'));
});
afterAll(() => rmSync(scratch, { recursive: true }));

const make = () =>
  new Sequential([Input({ shape: [3, 1] }), layers.lstm(4), layers.dense(1)], { seed: 2 }).compile({
    optimizer: 'adam',
    loss: 'mse',
  });

test('a model that is loaded continues like one that was never saved', async () => {
  await using model = make();
  await model.fit(x, y, { ...once, epochs: 2 });
  const directory = await model.save(join(scratch, 'model'));
  const { history } = await model.fit(x, y, { ...once, epochs: 2 });
  await using loaded = await loadModel(directory);
  const again = await loaded.fit(x, y, { ...once, epochs: 2 });
  for (const [i, loss] of history.loss!.entries()) expect(again.history.loss![i]).toBeCloseTo(loss, 6);
  expect(((await loaded.predict(x)) as Tensor).toArray()).toEqual((await model.predict(x)).toArray());
  await using other = await loadModel(directory, { compile: { optimizer: adam(0.5), loss: 'mse' } });
  expect((await other.fit(x, y, { ...once, epochs: 1 })).history.loss![0]).not.toBeCloseTo(
    history.loss![0]!,
    4,
  );
});

test('weights are a checkpoint that Python reads, and that another model restores', async () => {
  await using model = make();
  const prefix = join(scratch, 'weights/first');
  await model.saveWeights(prefix);
  await using other = new Sequential([Input({ shape: [3, 1] }), layers.lstm(4), layers.dense(1)]);
  await other.loadWeights(prefix);
  expect((await other.predict(x)).toArray()).toEqual((await model.predict(x)).toArray());
  const found = await askPython<{ readonly predicted: number[][] }>(
    new URL('../testing/saved.py', import.meta.url),
    {
      json: model.toJson(),
      checkpoint: prefix,
      x,
    },
  );
  const predicted = (await model.predict(x)).toArray() as number[][];
  for (const [i, [value]] of found.predicted.entries()) expect(value).toBeCloseTo(predicted[i]![0]!, 5);
  await using wrong = new Sequential([Input({ shape: [3, 1] }), layers.lstm(5), layers.dense(1)]);
  await expect(wrong.loadWeights(prefix)).rejects.toThrow(
    /'lstm\/kernel' has shape \[1, 16\] in .*; in the model it is \[1, 20\]/,
  );
  await using missing = new Sequential([Input({ shape: [3, 1] }), layers.gru(4), layers.dense(1)]);
  await expect(missing.loadWeights(prefix)).rejects.toThrow(/no value for gru\/kernel/);
  await expect(model.loadWeights(join(scratch, 'none'))).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
});

class Scale extends Layer {
  readonly #initial: number;
  #factor: Variable | undefined;

  constructor({ initial = 1, name }: { readonly initial?: number; readonly name?: string } = {}) {
    super(name === undefined ? {} : { name });
    this.#initial = initial;
  }
  override build() {
    this.#factor = this.addWeight('factor', { shape: [], initializer: this.#initial });
  }
  override call(input: Output) {
    return mul(input, this.#factor!);
  }
  override getConfig() {
    return { initial: this.#initial };
  }
}

test('a subclass of Layer has weights, and is read back from JSON by its class', async () => {
  await using model = new Sequential([Input({ shape: [1] }), new Scale({ initial: 3 })]).compile({
    optimizer: 'sgd',
    loss: 'mse',
  });
  expect((await model.predict([[2]])).toArray()).toEqual([[6]]);
  await model.fit([[1], [2]], [[1], [2]], { epochs: 2 });
  expect(Object.keys(await model.getWeights())).toEqual(['scale/factor']);
  expect((await model.getWeights())['scale/factor']!.number()).toBeLessThan(3);
  await using again = modelFromJson(model.toJson(), { layers: { Scale } });
  expect(((await again.predict([[2]])) as Tensor).toArray()).toEqual([[6]]);
  expect(() => modelFromJson(model.toJson())).toThrow(
    described(/class Scale, which Shoal does not have\n.*layers: \{ Scale \}/s),
  );
  const directory = await model.save(join(scratch, 'scaled'));
  await using loaded = await loadModel(directory, { layers: { Scale } });
  expect(((await loaded.predict([[2]])) as Tensor).toArray()).toEqual((await model.predict([[2]])).toArray());
});

test('a model with a function is served, but cannot be trained further', async () => {
  await using model = new Sequential([Input({ shape: [1] }), layers.lambda((input) => mul(input, 2))]);
  expect(() => model.toJson()).toThrow(/lambda.*is a function/);
  const directory = await model.save(join(scratch, 'function'));
  await expect(loadModel(directory)).rejects.toThrow(/can be served but not trained further: Layer lambda/);
  await expect(loadModel(scratch)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
});

test('a model in two models has one set of weights, which both train', async () => {
  const tower = new Sequential([Input({ shape: [2] }), layers.dense(2, { name: 'inner' })]);
  const [a, b] = [Input({ shape: [2], name: 'a' }), Input({ shape: [2], name: 'b' })];
  const both = layers.add().apply([tower.apply(a), tower.apply(b)]);
  await using joined = new Model({ inputs: [a, b], outputs: layers.dense(1).apply(both) }).compile({
    optimizer: 'sgd',
    loss: 'mse',
  });
  await using alone = tower.compile({ optimizer: 'sgd', loss: 'mse' });
  const [one, two] = [[[1, 2]], [[3, 4]]];
  const before = await alone.predict(one);
  await joined.fit({ a: one, b: two }, [[1]], { epochs: 2 });
  expect((await alone.predict(one)).toArray()).not.toEqual(before.toArray());
  expect((await alone.getWeights())['inner/kernel']!.toArray()).toEqual(
    (await joined.getWeights())['functional/inner/kernel']!.toArray(),
  );
});

test('callbacks write checkpoints, tables and event files', async () => {
  await using model = make();
  const path = (name: string) => join(scratch, 'callbacks', name);
  await model.fit(x, y, {
    ...once,
    epochs: 2,
    validationSplit: 0.25,
    callbacks: [
      callbacks.modelCheckpoint(path('model-{epoch}')),
      callbacks.modelCheckpoint(path('best'), { saveBestOnly: true, saveWeightsOnly: true }),
      callbacks.csvLogger(path('log.csv')),
      callbacks.tensorBoard(path('events')),
    ],
  });
  expect(readFileSync(path('log.csv'), 'utf8')).toMatch(
    /^epoch,loss,val_loss\n0,[\d.]+,[\d.]+\n1,[\d.]+,[\d.]+\n$/,
  );
  expect(['model-1', 'model-2'].map((name) => existsSync(path(`${name}/saved_model.pb`)))).toEqual([
    true,
    true,
  ]);
  await using first = await loadModel(path('model-2'));
  await first.loadWeights(path('best'));
  const { readdirSync } = await import('node:fs');
  const [file] = readdirSync(path('events/validation'));
  let scalars = 0;
  for await (const event of readEvents(path(`events/validation/${file}`)))
    if (event.what.case === 'summary') scalars += 1;
  expect(scalars).toBe(2);
  expect(() => callbacks.modelCheckpoint('model')).toThrow(described(/same directory\n.*\{epoch\}/s));
});
