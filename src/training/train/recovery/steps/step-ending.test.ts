import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { StepEnding } from './step-ending.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const GRACE_MS = 5000;

function stopped(mayFinish: boolean) {
  const stop = new AbortController();
  const ending = new StepEnding(stop.signal);
  ending.mayFinish = () => mayFinish;
  stop.abort('Ctrl-C');
  return ending;
}

describe('a stop', () => {
  test('cancels waits at once', () => {
    expect(stopped(false).signal).toMatchObject({ aborted: true, reason: 'Ctrl-C' });
    expect(new StepEnding(AbortSignal.abort('before')).signal.reason).toBe('before');
  });

  test('cancels a step in flight when its time is over', () => {
    const { signal } = stopped(true);
    vi.advanceTimersByTime(GRACE_MS - 1);
    expect(signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(signal).toMatchObject({ aborted: true, reason: 'Ctrl-C' });
  });

  test('cancels nothing after the last step', () => {
    const ending = stopped(true);
    ending.finished();
    ending.stop(AbortSignal.abort('too late'));
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(2 * GRACE_MS);
    expect(ending.signal.aborted).toBe(false);
  });

  test('waits for no step after a failure', () => {
    const ending = stopped(true);
    ending.cancel('failed');
    expect(ending.signal).toMatchObject({ aborted: true, reason: 'failed' });
    expect(vi.getTimerCount()).toBe(0);
  });

  test('has no effect once it is disposed', () => {
    const stop = new AbortController();
    const ending = new StepEnding(stop.signal);
    ending[Symbol.dispose]();
    stop.abort();
    expect(ending.signal.aborted).toBe(false);
  });
});
