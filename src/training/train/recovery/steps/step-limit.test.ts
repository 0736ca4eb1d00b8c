import { describe, expect, test } from 'vitest';
import { StepLimit, StepTimes } from './step-limit.js';

describe('the limit of a step', () => {
  test('is generous at first, then derived from the longest recent step', () => {
    const times = new StepTimes();
    const limit = new StepLimit(times);
    expect(limit.ms).toBe(600_000);
    limit.completed(25_000);
    expect(limit.ms).toBe(250_000);
    for (let i = 0; i < 100; i++) limit.completed(10);
    expect(limit.ms).toBe(60_000);
  });

  test('is the configured one', () => {
    const limit = new StepLimit(new StepTimes(), { fixedMs: 5000 });
    limit.completed(4000);
    expect(limit.ms).toBe(5000);
  });

  test('grows with each expired attempt, and fails the third in a row', () => {
    const limit = new StepLimit(new StepTimes());
    limit.completed(10);
    limit.expired(true);
    expect(limit.ms).toBe(120_000);
    limit.expired(true);
    expect(limit.ms).toBe(240_000);
    expect(() => limit.expired(true)).toThrow(/more than 240 s.*all tasks.*alive/);
  });

  test('does not count attempts that waited for a missing task, nor those before a completed step', () => {
    const limit = new StepLimit(new StepTimes(), { fixedMs: 5000 });
    for (let i = 0; i < 10; i++) limit.expired(false);
    for (let i = 0; i < 10; i++) {
      limit.expired(true);
      limit.expired(true);
      limit.completed(10);
    }
    expect(limit.ms).toBe(5000);
  });
});

test('the time to pause is derived from recent steps', () => {
  const times = new StepTimes();
  expect(times.pauseMs).toBe(60_000);
  times.add(10);
  expect(times.pauseMs).toBe(15_000);
  times.add(20_000);
  expect(times.pauseMs).toBe(200_000);
});
