import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  atEnd,
  every,
  everySecs,
  everySteps,
  SaveSchedule,
  ScheduledWork,
  whenLeaving,
} from './save-schedule.js';

let now = 0;
const clock = () => now;

describe('a save schedule', () => {
  beforeEach(() => {
    now = 0;
  });

  it('is due after its seconds, at another step', () => {
    const schedule = new SaveSchedule([everySecs(10)], clock);
    schedule.begin(5);
    now = 9_999;
    expect(schedule.isDue('step', 6)).toBe(false);
    now = 10_000;
    expect([schedule.isDue('step', 5), schedule.isDue('step', 6), schedule.isDue('time', 5)]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('is due after its steps, in either direction', () => {
    const schedule = new SaveSchedule([everySteps(10)], clock);
    schedule.begin(50);
    expect([59, 60, 41, 40].map((step) => schedule.isDue('step', step))).toEqual([false, true, false, true]);
    expect(schedule.dueInMs).toBe(Infinity);
  });

  it('is due at the end unless the last step is saved, and before a ps leaves, if it says so', () => {
    const both = new SaveSchedule([atEnd, whenLeaving], clock);
    expect([both.isDue('end', 7, 7), both.isDue('end', 8, 7), both.isDue('end', undefined, 7)]).toEqual([
      false,
      true,
      true,
    ]);
    expect(both.isDue('leaving', 7)).toBe(true);
    const neither = new SaveSchedule(every({ secs: 1, steps: 1 }), clock);
    now = 5000;
    expect([neither.isDue('end', 8, 7), neither.isDue('leaving', 8)]).toEqual([false, false]);
  });

  it('repeats a failed save after its delay, and not before', () => {
    const schedule = new SaveSchedule(every({ steps: 1 }), clock);
    schedule.begin(0);
    schedule.retryIn(500);
    expect([schedule.isDue('step', 9), schedule.dueInMs]).toEqual([false, 500]);
    now = 500;
    expect(schedule.isDue('step', 9)).toBe(true);
  });

  it('counts from the end of a save that took longer than its interval', () => {
    const schedule = new SaveSchedule([everySecs(10)], clock);
    schedule.begin(0);
    now = 25_000;
    schedule.ended();
    expect(schedule.dueInMs).toBe(10_000);
  });
});

describe('scheduled work', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('is done by the clock and by steps, one at a time, until it is stopped', async () => {
    const begun: number[] = [];
    let finish = () => {};
    const work = new ScheduledWork(new SaveSchedule(every({ secs: 10, steps: 5 }), Date.now), () => {
      begun.push(Date.now());
      return new Promise<void>((resolve) => {
        finish = resolve;
      });
    });
    const from = Date.now();
    work.begin(0);
    await vi.advanceTimersByTimeAsync(10_000);
    work.onStep(7);
    expect(begun.map((at) => at - from)).toEqual([10_000]);
    finish();
    await vi.advanceTimersByTimeAsync(1000);
    work.onStep(8);
    expect(begun.map((at) => at - from)).toEqual([10_000, 11_000]);
    const stopped = work.stop();
    finish();
    await stopped;
    await vi.advanceTimersByTimeAsync(60_000);
    work.onStep(100);
    expect(begun).toHaveLength(2);
  });
});
