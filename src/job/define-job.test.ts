import { expect, test } from 'vitest';
import { defineJob, type TrainOptions } from './define-job.js';

const define = (train: unknown) =>
  defineJob({ name: 'small', model: () => ({}) as never, train: train as TrainOptions });

test.each([
  [{ lastStep: '5' }, "it is '5'"],
  [{ lastStep: 1.5 }, 'it is 1.5'],
  [{}, 'it is not set'],
  [undefined, 'it is not set'],
])('train: %o is rejected with the value of lastStep', (train, reason) => {
  expect(() => define(train)).toThrow(
    `train.lastStep of job 'small' must be an integer of at least 0, ${reason}`,
  );
});
