/** What `fit` has, jobs have too: several outputs, weights of examples and classes, validation; or an error says why not. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { described } from '../../../test/described.js';
import { constant } from '../../tensorflow/ops/creation.js';
import { sgd } from '../../tensorflow/optimizers/index.js';
import { defineJob } from '../job/definition/define-job.js';
import { runInProcess } from '../job/running/run-local.js';
import { callbacks, Input, layers, Model, Sequential } from './index.js';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-keras-jobs-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const x = Array.from({ length: 12 }, (_, i) => [Math.sin(i), Math.cos(2 * i)]);
const classes = x.map((_, i) => i % 3);
const sums = x.map(([a = 0, b = 0]) => [a + b]);

test('a job with classWeight and sampleWeight makes the steps of fit', async () => {
  const make = () =>
    new Sequential([
      Input({ shape: [2] }),
      layers.dense(3, { activation: 'softmax', kernelInitializer: 'zeros' }),
    ]).compile({
      optimizer: sgd(0.5),
      loss: 'sparseCategoricalCrossentropy',
    });
  const sampleWeight = x.map((_, i) => 1 + (i % 2));
  const classWeight = { 0: 3, 2: 0.5 };
  await using model = make();
  const { history } = await model.fit(x, classes, { batchSize: 12, epochs: 5, sampleWeight, classWeight });
  const job = make().toJob({
    name: 'weighted',
    input: () => ({
      x: constant(x),
      y: constant(classes, { dtype: 'int32' }),
      sampleWeight: constant(sampleWeight),
    }),
    classWeight,
    epochs: 1,
    stepsPerEpoch: 5,
    validationData: [x, classes],
  });
  const { step, loss, evaluation } = (await runInProcess(defineJob(job), { dir })) as unknown as {
    readonly step: number;
    readonly loss: number;
    readonly evaluation?: { readonly results?: Readonly<Record<string, number>> };
  };
  expect(step).toBe(5);
  expect(loss).toBeCloseTo(history.loss![4]!, 5);
  const expected = await model.evaluate(x, classes);
  expect(evaluation?.results?.loss ?? expected.loss).toBeCloseTo(expected.loss!, 5);
});

test('a job has several outputs, with a loss and a weight for each', async () => {
  const input = Input({ shape: [2] });
  const hidden = layers.dense(4, { activation: 'tanh', kernelInitializer: 0.3 }).apply(input);
  const outputs = [
    layers.dense(1, { name: 'sum', kernelInitializer: 0.2 }).apply(hidden),
    layers.dense(3, { name: 'kind', activation: 'softmax', kernelInitializer: 0.1 }).apply(hidden),
  ] as const; // prettier-ignore
  const model = new Model({ inputs: input, outputs, seed: 2 }).compile({
    optimizer: 'adam',
    loss: { sum: 'mse', kind: 'sparseCategoricalCrossentropy' },
    lossWeights: { sum: 2, kind: 0.5 },
    metrics: { kind: ['accuracy'] },
  });
  const before = await model.evaluate(x, [sums, classes]);
  expect(Object.keys(before)).toEqual(['loss', 'sum_loss', 'kind_loss', 'kind_accuracy']);
  expect(before.loss).toBeCloseTo(2 * before.sum_loss! + 0.5 * before.kind_loss!, 4);
  const job = model.toJob({
    name: 'several',
    input: () => ({
      x: constant(x),
      'y/sum': constant(sums),
      'y/kind': constant(classes, { dtype: 'int32' }),
    }),
    train: { lastStep: 1 },
    evaluate: {},
    export: {},
  });
  const { loss, exported } = await runInProcess(defineJob(job), { dir });
  expect(loss).toBeCloseTo(before.loss!, 4);
  expect(exported).toBeDefined();
  await model.close();
});

test('a job begins with the weights of a model that were saved', async () => {
  const make = () =>
    new Sequential([Input({ shape: [2] }), layers.dense(4, { activation: 'relu' }), layers.dense(1)]).compile(
      {
        optimizer: 'adam',
        loss: 'mse',
      },
    );
  await using model = make();
  await model.saveWeights(join(dir, 'pretrained'));
  const { loss } = await model.evaluate(x, sums);
  const options = {
    name: 'pretrained',
    input: () => ({ x: constant(x), y: constant(sums) }),
    train: { lastStep: 1 },
  };
  const job = make().toJob({ ...options, initialWeights: join(dir, 'pretrained') });
  expect((await runInProcess(defineJob(job), { dir })).loss).toBeCloseTo(loss!, 5);
  const other = new Sequential([Input({ shape: [2] }), layers.dense(1)]).compile({
    optimizer: 'adam',
    loss: 'mse',
  });
  const wrong = other.toJob({ ...options, initialWeights: join(dir, 'pretrained') });
  await expect(runInProcess(defineJob(wrong), { dir: join(dir, 'wrong') })).rejects.toThrow(
    /'dense\/kernel' is float32 \[2, 1\], but .* \[2, 4\]/,
  );
});

test('x of a batch is the only input of a model, whatever its name is', async () => {
  const make = () =>
    new Sequential([
      Input({ shape: [2], name: 'words' }),
      layers.dense(1, { kernelInitializer: 'zeros' }),
    ]).compile({
      optimizer: sgd(0.1),
      loss: 'mse',
    });
  await using model = make();
  const { history } = await model.fit(() => [{ x, y: sums }], { epochs: 3 });
  const job = make().toJob({
    name: 'named',
    input: () => ({ x: constant(x), y: constant(sums) }),
    train: { lastStep: 3 },
  });
  const { loss } = await runInProcess(defineJob(job), { dir });
  expect(loss).toBeCloseTo(history.loss?.at(-1) as number, 5);
});

test('what a job does not have is an error that says what it has', () => {
  const model = new Sequential([Input({ shape: [2] }), layers.dense(1)]).compile({
    optimizer: 'sgd',
    loss: 'mse',
  });
  const job = (options: object) => () =>
    model.toJob({ name: 'a', input: () => ({}) as never, train: { lastStep: 1 }, ...options } as never); // prettier-ignore
  expect(job({ batchSize: 3 })).toThrow(described(/toJob does not take 'batchSize'\n.*dataset\.batch/s));
  expect(job({ validationSplit: 0.1 })).toThrow(described(/'validationSplit'\n.*evaluate: \{ input \}/s));
  expect(job({ callbacks: [callbacks.earlyStopping()] })).toThrow(
    described(/callbacks of fit\n.*earlyStopping/s),
  );
  expect(job({ tain: {} })).toThrow(described(/unknown option 'tain'\n.*'train'/s));
  expect(() => model.toJob({ name: 'a', input: () => ({}) as never, epochs: 3 })).toThrow(
    described(/needs train: \{ lastStep \}, or epochs and stepsPerEpoch\n/),
  );
});
