import { expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { defineJob, type TrainOptions, withoutEvaluation } from './define-job.js';

const job = (train: object, more: object = { evaluate: {} }) =>
  defineJob({
    name: 'watched',
    model: () => ({}) as never,
    train: { lastStep: 10, ...train } as TrainOptions,
    ...more,
  });
const auc = { metric: 'eval/auc', patience: 2 };

it.each([
  [
    'a metric without evaluate',
    { earlyStopping: auc },
    {},
    /watches 'eval\/auc', but the job has no evaluation\n.*evaluate: \{/,
  ],
  [
    'a metric without its prefix',
    { earlyStopping: { ...auc, metric: 'auc' } },
    undefined,
    /'auc', which is not a metric of the evaluation\n.*'eval\/NAME'/,
  ],
  [
    'no patience',
    { earlyStopping: { metric: 'eval/auc' } },
    undefined,
    /patience of job 'watched' must be an integer of at least 1, it is undefined/,
  ],
  [
    'a mode',
    { earlyStopping: { ...auc, mode: 'up' } },
    undefined,
    /mode of job 'watched' must be 'min' or 'max', it is 'up'/,
  ],
  [
    'both forms',
    { earlyStopping: { ...auc, output: 'y' } },
    undefined,
    /options of an output and of a metric/,
  ],
  [
    'the best without checkpoints',
    { earlyStopping: { ...auc, restoreBest: true } },
    undefined,
    /restores the best checkpoint, but the job saves none/,
  ],
  [
    'a factor',
    { reduceLearningRate: { metric: 'loss', factor: 2 } },
    undefined,
    /factor of job 'watched' must be between 0 and 1, it is 2/,
  ],
  [
    'a rate by a metric without evaluate',
    { reduceLearningRate: { metric: 'eval/loss' } },
    {},
    /has no evaluation/,
  ],
  [
    'an unknown option',
    { reduceLearningRate: { metric: 'loss', patiense: 2 } },
    undefined,
    /unknown option 'train.reduceLearningRate.patiense'/,
  ],
])('refuses %s', (_, train, more, message) => {
  expect(() => job(train, more)).toThrow(described(message));
});

it('a job without its evaluation decides nothing by it', () => {
  const { train } = withoutEvaluation(job({ earlyStopping: auc, reduceLearningRate: { metric: 'loss' } }));
  expect(train.earlyStopping).toBeUndefined();
  expect(train.reduceLearningRate).toEqual({ metric: 'loss' });
});
