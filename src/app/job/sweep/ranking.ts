/** Orders the trials of a sweep by a metric, and shows them as a table. */

import { jsonNumber } from '../../../base/text/events.js';
import { table } from '../../../base/text/format.js';
import type { TrialReport } from '../../../base/text/job-event.js';

export interface Ranking {
  /** `loss`, a metric of the evaluation as `auc` or `eval/auc`, or a scalar output of the model. */
  readonly metric: string;
  readonly mode: 'min' | 'max';
}

/** The value of the metric; undefined if the trial has not reported one. */
export function metricOf(
  { loss, metrics = {}, outputs = {} }: TrialReport,
  metric: string,
): number | undefined {
  if (metric === 'loss') return loss;
  const name = metric.replace(/^eval\//, '');
  const found = metrics[metric] ?? metrics[name];
  return found ?? (name === metric ? jsonNumber(outputs[name]) : undefined);
}

/** The best first; trials without a number are last. */
export function rankTrials(
  trials: readonly TrialReport[],
  { metric, mode }: Ranking,
): readonly TrialReport[] {
  const score = (trial: TrialReport): number => {
    const value = metricOf(trial, metric);
    if (value === undefined || Number.isNaN(value)) return Number.POSITIVE_INFINITY;
    return mode === 'min' ? value : -value;
  };
  return trials.toSorted((a, b) => {
    const [left, right] = [score(a), score(b)];
    return left === right ? 0 : left - right;
  });
}

/** The best trial that is done; undefined if none has a number. */
export function bestOf(trials: readonly TrialReport[], ranking: Ranking): TrialReport | undefined {
  const [first] = rankTrials(
    trials.filter(({ state }) => state === 'done'),
    ranking,
  );
  const value = first && metricOf(first, ranking.metric);
  return value === undefined || Number.isNaN(value) ? undefined : first;
}

const MAX_METRICS = 4;

export function trialTable(trials: readonly TrialReport[], { metric }: Ranking): string {
  const params = Object.keys(trials[0]?.params ?? {});
  const reported = trials.flatMap(({ metrics = {} }) => Object.keys(metrics).map((name) => `eval/${name}`));
  const isKnown = metric === 'loss' || reported.includes(`eval/${metric.replace(/^eval\//, '')}`);
  const metrics = [...new Set([...(isKnown ? [] : [metric]), ...reported])].slice(0, MAX_METRICS);
  const head = [...params, 'state', 'step', 'loss', ...metrics, 'seconds'];
  const rows = trials.map((trial) => [
    ...params.map((name) => String(trial.params[name])),
    trial.state + (trial.error?.code ? ` ${trial.error.code}` : ''),
    trial.step === undefined ? '' : String(trial.step),
    numberText(trial.loss),
    ...metrics.map((name) => numberText(metricOf(trial, name))),
    trial.seconds.toFixed(1),
  ]);
  return table(head, rows);
}

export const numberText = (value: number | undefined): string =>
  value === undefined ? '' : Number.isFinite(value) ? String(Number(value.toPrecision(5))) : String(value);
