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

test.each([
  [{ exports: {} }, 'exports'],
  [{ train: { lastStep: 1, sumaries: {} } }, 'train.sumaries'],
  [{ train: { lastSteps: 1 } }, 'train.lastSteps'],
  [{ train: { lastStep: 1, checkpoint: { everySec: 60 } } }, 'train.checkpoint.everySec'],
  [{ callbacks: { onSaved: () => {} } }, 'callbacks.onSaved'],
  [{ export: { last: 3 } }, 'export.last'],
])('an unknown option is an error: %o', (options, option) => {
  const model = () => ({}) as never;
  expect(() => defineJob({ name: 'typo', model, train: { lastStep: 1 }, ...options } as never)).toThrow(
    `Job 'typo' has an unknown option '${option}'`,
  );
});

test("recovery: 'partial' is refused with synchronous training", () => {
  expect(() => define({ lastStep: 1, recovery: 'some' })).toThrow(/must be 'exact' or 'partial'/);
  expect(() => define({ lastStep: 1, recovery: 'partial' })).not.toThrow();
  expect(() => define({ lastStep: 1, recovery: 'partial', sync: true })).toThrow(
    expect.objectContaining({ code: 'SHOAL_CONFIG', message: expect.stringContaining('synchronously') }),
  );
});

test.each([
  [{ sync: true }, 'it trains synchronously'],
  [{ input: 'whole' }, 'its input is not leased'],
])('an elastic job refuses %o', (options, why) => {
  expect(() => define({ lastStep: 1, elastic: true, ...options })).toThrow(
    expect.objectContaining({ code: 'SHOAL_CONFIG', message: expect.stringContaining(why) }),
  );
});

test('a list of hooks is refused: a job makes its hooks', () => {
  const hooks = [{}] as never;
  expect(() => defineJob({ name: 'h', model: () => ({}) as never, train: { lastStep: 1 }, hooks })).toThrow(
    /hooks of job 'h' must be a function that returns a list/,
  );
});
