import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { fakeState, fakeTask } from '../../../../test/page/fake-cluster.js';
import { columns, Series } from '../record/series.js';
import type { TaskReport } from '../state.js';
import { TaskMemory } from './task-memory.js';

const DAY_SECS = 24 * 3600;

/** A report with curves of a day. */
function reportOf(names: readonly string[], seed: number): TaskReport {
  const curves = names.map((name) => {
    const series = new Series();
    let noise = seed;
    for (let second = 0; second < DAY_SECS; second += 2) {
      noise = (noise * 16_807) % 2_147_483_647;
      series.add(second * 1000, second * 37, Math.exp(-second / 20_000) + noise / 2 ** 36);
    }
    return columns(name, series.since(-1, DAY_SECS * 1000));
  });
  return { at: 1, until: 1, incarnation: 1, curves, events: [], files: [], configuration: [] } as never;
}

test('the points that are kept end with the newest ones, and begin with the first', () => {
  const memory = new TaskMemory();
  memory.add(reportOf(['loss'], 7));
  const [curve] = memory.curves(300);
  const [all] = memory.curves(1e9);
  expect(curve!.at.length).toBeLessThanOrEqual(300);
  expect(curve!.at.length).toBeGreaterThan(250);
  expect(curve!.at[0]).toBe(all!.at[0]);
  expect(curve!.at.slice(-100)).toEqual(all!.at.slice(-100));
});

test('a page of 1,000 tasks with a day of curves loads at most 200 kB', () => {
  const names = ['loss', 'steps/s', 'global steps/s'];
  const tasks = Array.from({ length: 1000 }, (_, i) => {
    const memory = new TaskMemory();
    const hasCurves = i >= 100 && i < 108;
    if (hasCurves) memory.add(reportOf(names, i));
    return fakeTask(`/job:${i < 100 ? 'ps' : 'worker'}/task:${i}`, {
      ...{ host: `node${i}`, pid: 1000 + i * 7, step: 1e6 + i, silentMs: (i * 7919) % 500 },
      curves: memory.curves(12_000 / 25),
    });
  });
  const sent = gzipSync(JSON.stringify(fakeState({ tasks })));
  expect(sent.byteLength).toBeLessThan(200_000);
});

test('what is new is asked for again from the beginning when the task is another process', () => {
  const memory = new TaskMemory();
  memory.add(reportOf([], 1));
  expect([memory.since(1), memory.since(2)]).toEqual([1, 0]);
});
