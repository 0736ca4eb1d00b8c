/** Early stopping ends training in the same epoch as Keras does. */
import { expect, test } from 'vitest';
import type { FitControl } from './callback.js';
import { earlyStopping, type FitEarlyStoppingOptions } from './callbacks.js';

/** The epoch in which training ends; undefined if it does not. */
function stopEpoch(values: readonly number[], options: FitEarlyStoppingOptions): number | undefined {
  const { onEpochEnd } = earlyStopping({ monitor: 'loss', ...options });
  let stopped: number | undefined;
  for (const [epoch, loss] of values.entries())
    onEpochEnd!(epoch, { loss }, {
      stop: () => {
        stopped ??= epoch;
      },
    } as FitControl);
  return stopped;
}

test.each([
  [0, 1],
  [1, 1],
  [2, 2],
  [3, 3],
])('with patience %i a constant loss stops in epoch %i', (patience, epoch) => {
  expect(stopEpoch([1, 1, 1, 1, 1], { patience })).toBe(epoch);
});

test('an improvement restarts the count', () => {
  expect(stopEpoch([5, 6, 4, 4, 4, 4], { patience: 2 })).toBe(4);
  expect(stopEpoch([5, 4, 3, 2], { patience: 1 })).toBeUndefined();
  expect(stopEpoch([5, 4.5, 4], { patience: 1, minDelta: 1 })).toBe(1);
  expect(stopEpoch([5, 6, 5], { patience: 1, mode: 'max' })).toBe(2);
});
