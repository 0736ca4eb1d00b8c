import { expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import type { TrialReport } from '../../../base/text/job-event.js';
import { defineJob } from '../definition/define-job.js';
import { bestOf, rankTrials, trialTable } from './ranking.js';
import { trialsOf } from './trials.js';

const JOB = defineJob({
  name: 'line',
  params: { rate: 0.1, dim: 4, words: 'a', wide: false },
  model: () => {
    throw new Error('not built');
  },
  train: { lastStep: 1 },
});

const names = (set: readonly string[]) => trialsOf(JOB, set).map(({ name }) => name);

test('the trials are all combinations, the first parameter changes slowest', () => {
  expect(names(['rate=0.01,1e-3', 'dim=8,16'])).toEqual([
    'rate=0.01+dim=8',
    'rate=0.01+dim=16',
    'rate=0.001+dim=8',
    'rate=0.001+dim=16',
  ]);
  expect(trialsOf(JOB, ['wide=true,false'])[0]).toEqual({
    name: 'wide=true',
    set: ['wide=true'],
    params: { wide: true },
    allParams: { rate: 0.1, dim: 4, words: 'a', wide: true },
  });
});

test('a name is safe as that of a directory, and different values have different names', () => {
  const all = names(['words=a/b,a b,..,a\\,b,a_b']);
  for (const name of all) expect(name).toMatch(/^[\w=.+-]{1,200}$/);
  expect(new Set(all).size).toBe(5);
  expect(trialsOf(JOB, ['words=a\\,b,c'])[0]?.params).toEqual({ words: 'a,b' });
  expect(names([`words=${'x'.repeat(500)}1,${'x'.repeat(500)}2`]).map(({ length }) => length)).toEqual([
    189, 189,
  ]);
});

test('a random choice is the same for the same seed, and has no trial twice', () => {
  const set = ['rate=1,2,3,4,5,6,7,8,9', 'dim=1,2,3,4,5,6,7,8,9'];
  const choose = (count: number, seed: number) => trialsOf(JOB, set, { count, seed }).map(({ name }) => name);
  expect(choose(5, 1)).toEqual(choose(5, 1));
  expect(choose(5, 1)).not.toEqual(choose(5, 2));
  expect(new Set(choose(40, 3)).size).toBe(40);
  expect(choose(1000, 0)).toEqual(names(set));
});

test.each([
  [[], /needs values to try\n.*--set rate=/],
  [['rate'], /--set rate has no values/],
  [['rate='], /--set rate= has no values/],
  [['rate=1,,2'], /has an empty value/],
  [['rate=1', 'rate=2'], /--set rate is there twice/],
  [['rate=0.1,0.10'], /has the value 0.10 twice/],
  [['rate=1,fast'], /rate is a number, not "fast"/],
  [['speed=1'], /has no parameter speed\n.*rate, dim/],
  [['rate=1,2'].concat(Array.from({ length: 3 }, () => 'dim=1')), /--set dim is there twice/],
])('%j is refused', (set, reason) => {
  expect(() => trialsOf(JOB, set)).toThrow(described(reason));
});

const report = (trial: string, rest: Partial<TrialReport>): TrialReport => ({
  trial,
  params: { rate: trial },
  state: 'done',
  dir: '',
  starts: 1,
  seconds: 1,
  ...rest,
});

test('the best trial is the first of the table, those without a number are the last', () => {
  const trials = [
    report('a', { loss: Number.NaN, metrics: { auc: 0.5 } }),
    report('b', { loss: 0.2, metrics: { auc: 0.9 } }),
    report('c', { state: 'failed', error: { code: 'SHOAL_NAN', message: '' } }),
    report('d', { loss: 0.1, metrics: { auc: 0.7 } }),
  ];
  const order = (metric: string, mode: 'min' | 'max') =>
    rankTrials(trials, { metric, mode })
      .map(({ trial }) => trial)
      .join('');
  expect(order('loss', 'min')).toBe('dbac');
  expect(order('eval/auc', 'max')).toBe('bdac');
  expect(order('auc', 'min')).toBe('adbc');
  expect(bestOf(trials, { metric: 'loss', mode: 'min' })?.trial).toBe('d');
  expect(bestOf(trials, { metric: 'none', mode: 'min' })).toBeUndefined();
  expect(trialTable(trials, { metric: 'auc', mode: 'max' }).split('\n')[0]).toBe(
    'rate  state             step  loss  eval/auc  seconds',
  );
});
