/** The dashboard for Grafana: complete, and with the queries that the types of the metrics need. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../test/setup/run-setup.js';
import { dashboard, promQuery, trainingMetrics } from './dashboard.js';

const JOIN = '* on (job, instance) group_left (task) shoal_task_info{cluster=~"$cluster", task=~"$task"}';

test('the file is that of the metrics', () => {
  const text = readFileSync(join(ROOT, 'docs/grafana-dashboard.json'), 'utf8');
  expect(JSON.parse(text)).toEqual(dashboard());
});

test('every metric of a task is shown', () => {
  const text = JSON.stringify(dashboard());
  const names = trainingMetrics().map(({ name }) => name);
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !text.includes(name))).toEqual([]);
});

test('a query follows from the type of the metric', () => {
  expect(promQuery({ metric: 'a_total' }, 'counter')).toBe(
    `sum by (task) (rate(a_total[$__rate_interval]) ${JOIN})`,
  );
  expect(promQuery({ metric: 'a_total', isCount: true, by: 'mode' }, 'counter')).toBe(
    `sum by (task, mode) (increase(a_total[$__range]) ${JOIN})`,
  );
  expect(promQuery({ metric: 'b', of: 'max' }, 'gauge')).toBe(`max (b ${JOIN})`);
  expect(promQuery({ metric: 'c', quantile: 0.99 }, 'histogram')).toBe(
    `histogram_quantile(0.99, sum by (le, task) (rate(c_bucket[$__rate_interval]) ${JOIN}))`,
  );
});

test('panels do not overlap', () => {
  const { panels } = dashboard() as {
    panels: { id: number; gridPos: { x: number; y: number; w: number; h: number } }[];
  };
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const [i, { gridPos: a }] of panels.entries()) {
    expect(a.x + a.w).toBeLessThanOrEqual(24);
    for (const { gridPos: b } of panels.slice(i + 1))
      expect(a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y).toBe(true);
  }
});
