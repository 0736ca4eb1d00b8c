/** What the metrics say of the versions that come and go. */
import { expect, test } from 'vitest';
import { ServingMetrics } from './serving-metrics.js';

const linesWith = (metrics: ServingMetrics, part: string): readonly string[] =>
  metrics
    .text()
    .split('\n')
    .filter((line) => line.includes(part));

test('a version that was loaded from its staging directory is named by its number', () => {
  const metrics = new ServingMetrics();
  const staging = '/models/.half/.12.tmp-host.4026531836-77-0123456789ab';
  metrics.load(staging, true, 5);
  metrics.warmUp(staging, true, 5);
  expect(linesWith(metrics, '.tmp-')).toEqual([]);
  expect(linesWith(metrics, 'load_attempt_count{')).toEqual([
    ':tensorflow:cc:saved_model:load_attempt_count{model_path="/models/.half/12",status="success"} 1',
  ]);
});

test('metrics of versions do not grow with each version', () => {
  const metrics = new ServingMetrics();
  const load = (from: number, to: number) => {
    for (let version = from; version < to; version++) {
      metrics.load(`/models/half/${version}`, true, 5);
      metrics.warmUp(`/models/half/${version}`, true, 5);
    }
    return linesWith(metrics, 'model_path').length;
  };
  const before = load(0, 500);
  expect(load(500, 1000)).toBe(before);
  expect(linesWith(metrics, '"/models/half/999"')).not.toEqual([]);
});
