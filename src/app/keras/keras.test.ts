/** Models in this process: training, predictions, exports and errors. oracle.test.ts compares them with Keras. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { described } from '../../../test/described.js';
import { sgd } from '../../tensorflow/optimizers/index.js';
import { AdamOptimizer } from '../../tensorflow/optimizers/rules/adam.js';
import { seededRandom } from '../../tensorflow/tensor/seeded-random.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { fromTensorSlices } from '../../training/input/dataset/sources.js';
import { loadSavedModel } from '../../training/saved-model/loading/loader.js';
import { defineJob } from '../job/definition/define-job.js';
import { runInProcess } from '../job/running/run-local.js';
import { callbacks, Input, layers, Model, Sequential } from './index.js';

const random = seededRandom(5);
const numbers = (...shape: number[]): Tensor<'float32'> =>
  Tensor.of(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random() * 2 - 1),
    { shape },
  );
describe('a model in one process', () => {
  const x = numbers(200, 4);
  const y = Array.from(
    x.data.filter((_, i) => i % 4 === 0),
    (value) => (value > 0 ? 1 : 0),
  );
  const make = () =>
    new Sequential(
      [
        Input({ shape: [4] }),
        layers.dense(8, { activation: 'relu' }),
        layers.dense(1, { activation: 'sigmoid' }),
      ],
      { seed: 1 },
    ).compile({ optimizer: new AdamOptimizer(0.02), loss: 'binaryCrossentropy', metrics: ['accuracy'] });

  test('learns, evaluates, exports, and predicts the same after loading', async () => {
    const dir = join(mkdtempSync(join(tmpdir(), 'shoal-keras-')), 'export');
    try {
      await using model = make();
      const before = await model.evaluate(x, y);
      const lines: string[] = [];
      const output = { write: (text: string) => lines.push(text) };
      await model.fit(x, y, { epochs: 30, seed: 2, verbose: true, output });
      const after = await model.evaluate(x, y, { batchSize: 64 });
      expect(after.accuracy).toBeGreaterThan(0.95);
      expect(after.loss).toBeLessThan(before.loss! / 2);
      expect(lines).toHaveLength(30);
      expect(lines[29]).toMatch(/^epoch 30\/30 · \d+\.\d s · loss 0\.\d+ · accuracy 0?\.?\d+\n$/);
      const predicted = await model.predict(x);
      expect(await model.save(dir)).toBe(dir);
      expect(existsSync(join(dir, 'saved_model.pb'))).toBe(true);
      await using loaded = await loadSavedModel(dir);
      const { prediction } = await loaded.signatures.serving_default!({ x });
      expect((prediction as Tensor).toArray()).toEqual(predicted.toArray());
    } finally {
      rmSync(join(dir, '..'), { recursive: true });
    }
  });

  test('takes several optimizers, each with weights of its own', async () => {
    await using model = make().compile({
      optimizer: [{ variables: /^dense\//, use: sgd(0) }, { use: sgd(1) }],
      loss: 'binaryCrossentropy',
    });
    const before = await model.getWeights();
    await model.fit(x, y, { epochs: 1 });
    const after = await model.getWeights();
    const has = (name: string) => expect(after[name]!.toArray(), name);
    has('dense/kernel').toEqual(before['dense/kernel']!.toArray());
    has('dense_1/kernel').not.toEqual(before['dense_1/kernel']!.toArray());
  });

  test('continues with its weights, restores given ones, and starts over after close', async () => {
    const model = make();
    const first = await model.fit(x, y, { epochs: 2, shuffle: false });
    const kept = await model.getWeights();
    const second = await model.fit(x, y, { epochs: 1, shuffle: false });
    expect(second.history.loss![0]).toBeLessThan(first.history.loss![1]!);
    await model.setWeights(kept);
    expect((await model.getWeights())['dense/kernel']!.toArray()).toEqual(kept['dense/kernel']!.toArray());
    await model.close();
    const again = await model.fit(x, y, { epochs: 1, shuffle: false });
    expect(again.history.loss![0]).toBeCloseTo(first.history.loss![0]!, 5);
    await model.close();
  });

  test('stops early, by a callback, and by a signal', async () => {
    await using model = make();
    const validationData = [x, y.map((value) => 1 - value)] as const;
    const stopped = await model.fit(x, y, {
      epochs: 50,
      validationData,
      callbacks: [callbacks.earlyStopping({ patience: 2 })],
    });
    expect(stopped.epoch.length).toBeLessThan(10);
    let batches = 0;
    const once = await model.fit(x, y, {
      epochs: 5,
      callbacks: [
        {
          onBatchEnd: (_batch, { loss }, control) => {
            batches += 1;
            expect(loss).toBeGreaterThan(0);
            control.stop();
          },
        },
      ],
    });
    expect({ batches, epochs: once.epoch }).toEqual({ batches: 1, epochs: [0] });
    await expect(model.fit(x, y, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'SHOAL_ABORTED',
    });
  });

  test('rewrites one line on a terminal', async () => {
    vi.stubEnv('TERM', 'xterm');
    await using model = make();
    let text = '';
    const output = { isTTY: true, columns: 60, write: (part: string) => (text += part) };
    await model.fit(x, y, { batchSize: 10, output });
    const lines = text.split('\r\u001b[2K');
    expect(lines[1]).toMatch(/^epoch 1\/1 █░{23} 1\/20 · loss/);
    expect(lines.at(-1)).toMatch(/^epoch 1\/1 · \d+\.\d s · loss [^\n]*\n$/);
    for (const line of lines) expect(line.length).toBeLessThan(61);
    vi.unstubAllEnvs();
  });

  test('describes its layers', () => {
    let text = '';
    make().summary({ log: (given) => (text = given) });
    expect(text.split('\n').map((line) => line.trimEnd())).toEqual([
      'layer            output shape  parameters',
      'x (input)        [?, 4]                 0',
      'dense            [?, 8]                40',
      'dense_1 (dense)  [?, 1]                 9',
      '49 parameters, 49 of them trainable',
    ]);
  });

  test('trains as a job in one process', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'shoal-keras-job-'));
    try {
      const job = defineJob(
        make().toJob({
          name: 'half-planes',
          input: () =>
            fromTensorSlices({ x, y: Tensor.of(y) })
              .repeat()
              .batch(20),
          train: { lastStep: 300 },
          export: {},
        }),
      );
      const { step, loss, exported } = await runInProcess(job, { dir });
      expect(step).toBe(300);
      expect(loss).toBeLessThan(0.3);
      await using loaded = await loadSavedModel(exported!);
      const { prediction } = await loaded.signatures.serving_default!({ x });
      const correct = (prediction as Tensor<'float32'>).data.filter(
        (p, i) => p > 0.5 === (y[i] === 1),
      ).length;
      expect(correct).toBeGreaterThan(180);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});

test.each([
  ['a layer without input', () => layers.dense(3).apply([]), /Layer dense has no input/],
  ['no layers', () => new Sequential([Input({ shape: [3] })]), /has no layers/],
  [
    'two layers of one name',
    () => new Sequential([layers.dense(3, { name: 'a' }), layers.dense(3, { name: 'a' })]),
    /Two layers of the model are named 'a'/,
  ],
  [
    'an input that is not used',
    () => {
      const [a, b] = [Input({ shape: [3], name: 'a' }), Input({ shape: [3], name: 'b' })];
      return new Model({ inputs: [a, b], outputs: layers.dense(1).apply(a) });
    },
    /does not depend on its input 'b'/,
  ],
  [
    'two inputs of one name',
    () => {
      const [a, b] = [Input({ shape: [3] }), Input({ shape: [3] })];
      return new Model({ inputs: [a, b], outputs: layers.add().apply([a, b]) });
    },
    /need different names.*\n.*name: 'image'/s,
  ],
  [
    'an unknown activation',
    () => layers.dense(3, { activation: 'rely' as never }),
    /no activation 'rely'.*relu/s,
  ],
  [
    'an unknown loss',
    () => new Sequential([layers.dense(3)]).compile({ optimizer: 'sgd', loss: 'mso' as never }),
    /There is no loss 'mso'\n.*mse/s,
  ],
  [
    'a summary without a shape',
    () => new Sequential([layers.dense(3)]).summary(),
    /does not know the shape of its input yet\n.*keras\.Input/s,
  ],
] as const)('%s is an error', (_title, make, pattern) => {
  expect(make).toThrow(described(pattern));
});

test('a model that was built from data has a summary without Input', async () => {
  await using model = new Sequential([layers.dense(2)]);
  await model.predict([[1, 2, 3]]);
  let text = '';
  model.summary({ log: (given) => (text = given) });
  expect(text).toMatch(/x \(input\) +\[\?, 3\] +0\ndense +\[\?, 2\] +8\n/);
});

test('unknown options are errors', async () => {
  await using model = new Sequential([Input({ shape: [1] }), layers.dense(1)]);
  const plan = { optimizer: 'sgd', loss: 'meanSquaredError' } as const;
  expect(() => model.compile({ ...plan, metric: ['accuracy'] } as never)).toThrow(
    described(/compile has an unknown option 'metric'\n.*optimizer, loss, metrics/s),
  );
  model.compile(plan);
  const options = { batch_size: 2 } as never;
  await expect(model.fit([[1]], [1], options)).rejects.toThrow(
    described(/fit has an unknown option 'batch_size'\n.*batchSize/s),
  );
  await expect(model.evaluate([[1]], [1], options)).rejects.toThrow(
    "evaluate has an unknown option 'batch_size'",
  );
  await expect(model.predict([[1]], options)).rejects.toThrow("predict has an unknown option 'batch_size'");
});

test.each([
  ['a fraction', [0, 1.5, 2.5], 'y[1] is 1.5, but'],
  ['a negative number', [[0], [1], [-1]], 'y[2][0] is -1, but'],
  ['a class that the model does not have', Int32Array.of(0, 3, 1), 'y[1] is 3, but'],
  ['not a number', [Number.NaN, 0, 0], 'y[0] is NaN, but'],
])('a label that is %s is an error before training', async (_title, labels, message) => {
  await using model = new Sequential([Input({ shape: [1] }), layers.dense(3, { activation: 'softmax' })]);
  model.compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy' });
  const x = [[1], [2], [3]];
  const range = 'the labels of this loss are the numbers of classes: integers from 0 to 2';
  await expect(model.evaluate(x, labels)).rejects.toThrow(`${message} ${range}`);
  const validationData = [x, labels] as const;
  await expect(model.fit(x, [0, 1, 2], { validationData })).rejects.toThrow(`validationData: ${message}`);
});

test('fit rejects a model that is not compiled, and examples that do not fit', async () => {
  await using model = new Sequential([layers.dense(1)]);
  await expect(model.fit([[1]], [1])).rejects.toThrow(described(/fit needs a compiled model\n.*compile/s));
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
  await expect(model.fit([[1], [2]], [1])).rejects.toThrow('differ in number: x [2, 1], y [1]');
  await expect(model.fit([[1]], [1], { epochs: 0 })).rejects.toThrow('epochs must be a positive integer');
  await expect(model.fit({ z: [[1]] }, [1])).rejects.toThrow('has the inputs x; the examples are z');
  const { history } = await model.fit([[1], [2]], [1, 2], { epochs: 3 });
  expect(history.loss).toHaveLength(3);
  await expect(model.fit([[Number.NaN]], [1])).rejects.toMatchObject({ code: 'SHOAL_NAN' });
});
