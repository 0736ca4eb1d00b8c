import { expect, test } from 'vitest';
import { parseMetrics } from '../../../test/prometheus.js';
import { Metrics } from './metrics.js';

test('the text has help, type and samples, in the order of definition', () => {
  const metrics = new Metrics();
  metrics.counter('saves_total', 'Saves.').add(2);
  metrics.gauge('held', 'Held\nleases \\ now.').set(-1.5);
  metrics.readGauge('info', 'Labels.', () => [{ labels: { task: 'a "b" \\ \n' }, value: 1 }]);
  metrics.readGauge('unknown', 'No value yet.', () => undefined);
  expect(metrics.text()).toBe(
    [
      '# HELP saves_total Saves.',
      '# TYPE saves_total counter',
      'saves_total 2',
      '# HELP held Held\\nleases \\\\ now.',
      '# TYPE held gauge',
      'held -1.5',
      '# HELP info Labels.',
      '# TYPE info gauge',
      'info{task="a \\"b\\" \\\\ \\n"} 1',
      '# HELP unknown No value yet.',
      '# TYPE unknown gauge',
      '',
    ].join('\n'),
  );
  expect([...parseMetrics(metrics.text()).keys()]).toEqual(['saves_total', 'held', 'info', 'unknown']);
});

test('the buckets of a histogram include smaller values, and bounds are inclusive', () => {
  const metrics = new Metrics();
  const histogram = metrics.histogram('step_seconds', 'Steps.', [0.1, 1]);
  for (const value of [0.05, 0.1, 0.5, 7]) histogram.observe(value);
  expect(Object.fromEntries(parseMetrics(metrics.text()).get('step_seconds')!.samples)).toEqual({
    'step_seconds_bucket{le="0.1"}': 2,
    'step_seconds_bucket{le="1"}': 3,
    'step_seconds_bucket{le="+Inf"}': 4,
    step_seconds_sum: 7.65,
    step_seconds_count: 4,
  });
});

test('invalid and repeated names are refused', () => {
  const metrics = new Metrics();
  metrics.gauge('held', 'Held.');
  expect(() => metrics.gauge('held', 'Held.')).toThrow('There are two metrics held');
  expect(() => metrics.counter('saves', 'Saves.')).toThrow('ends in _total');
  expect(() => metrics.gauge('a-b', 'No.')).toThrow("'a-b' is not the name of a metric");
});
