import { afterEach, expect, it, vi } from 'vitest';
import { SWEEP_EVERY_MS, sweepHourly } from './sweeping.js';

afterEach(() => {
  vi.useRealTimers();
});

it('sweeps now and every hour until it is stopped, whether or not a sweep fails', async () => {
  vi.useFakeTimers();
  const lines: string[] = [];
  const calls: boolean[] = [];
  const sweep = async (isFirst: boolean) => {
    calls.push(isFirst);
    if (calls.length === 2) throw new Error('the disk hangs');
    return calls.length === 1 ? 3 : 0;
  };
  const stop = sweepHourly(sweep, (line) => lines.push(line));
  await vi.advanceTimersByTimeAsync(2 * SWEEP_EVERY_MS);
  expect(calls).toEqual([true, false, false]);
  expect(lines).toEqual([
    'removed 3 incomplete files of earlier runs',
    'cannot remove unfinished files: the disk hangs',
  ]);
  stop();
  await vi.advanceTimersByTimeAsync(2 * SWEEP_EVERY_MS);
  expect(calls).toHaveLength(3);
});
