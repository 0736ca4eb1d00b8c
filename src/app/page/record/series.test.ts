import { expect, test } from 'vitest';
import { finishedUntil, Series } from './series.js';

const SECOND = 1000;

test('values of one second are one point, their mean, once the second is over', () => {
  const series = new Series();
  for (const [at, value] of [
    [0, 1],
    [400, 3],
    [900, 5],
    [1000, 7],
  ] as const)
    series.add(at, 4, value);
  expect(series.since(-1, 1500)).toEqual([{ at: 0, step: 4, value: 3, count: 3 }]);
  expect(series.since(-1, 2000).map(({ value }) => value)).toEqual([3, 7]);
  expect(series.since(0, 2000).map(({ value }) => value)).toEqual([7]);
});

test('a day takes bounded memory, keeps its beginning, and the last minutes keep every second', () => {
  const series = new Series();
  const day = 24 * 3600;
  for (let second = 0; second < day; second++) series.add(second * SECOND, second, second);
  const points = series.since(-1, day * SECOND);
  expect(points.length).toBeLessThan(1400);
  expect(points[0]!.at).toBe(0);
  expect(points.at(-1)!.value).toBe(day - 1);
  const recent = points.filter(({ at }) => at >= (day - 600) * SECOND);
  expect(recent).toHaveLength(600);
  const total = points.reduce((sum, { count }) => sum + count, 0);
  expect(total).toBe(day);
});

test('after two days only the last one is left', () => {
  const series = new Series();
  for (let at = 0; at < 48 * 3600 * SECOND; at += 5 * SECOND) series.add(at, null, 1);
  const points = series.since(-1, 48 * 3600 * SECOND);
  expect(points.length).toBeLessThan(1400);
  expect(points[0]!.at).toBeGreaterThan(20 * 3600 * SECOND);
});

test('values that are no numbers are left out', () => {
  const series = new Series();
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) series.add(0, 1, value);
  expect(series.since(-1, 5000)).toEqual([]);
});

test('who asks again and again for what is new gets each point once', () => {
  const series = new Series();
  const got: number[] = [];
  let since = -1;
  for (let at = 0; at < 60 * SECOND; at += 250) {
    if (at % 1000 === 0) series.add(at + 200, null, at);
    if (at % 750 !== 0) continue;
    got.push(...series.since(since, at).map(({ value }) => value));
    since = finishedUntil(at);
  }
  expect(got).toEqual(Array.from({ length: got.length }, (_, i) => i * SECOND));
  expect(got.length).toBeGreaterThan(56);
});
