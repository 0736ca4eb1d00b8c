/** Streaming metrics over several batches: values and counter names match Python TensorFlow's. */
import { beforeAll, describe, expect, it } from 'vitest';
import { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { constant, placeholder } from '../../ops/index.js';
import { Session } from '../../session/session.js';
import type { TensorLike } from '../../tensor/tensor.js';
import { localVariables, localVariablesInitializer } from '../../variables/index.js';
import { metrics } from '../index.js';
import { expectClose, filled, numbers } from '../testing/compare.js';
import { askOracle } from '../testing/oracle.js';

type MetricName = 'mean' | 'accuracy' | 'precision' | 'recall' | 'auc' | 'meanSquaredError';
type Batch = Readonly<Record<string, unknown>>;

interface Case {
  readonly title: string;
  readonly metric: MetricName;
  readonly batches: readonly Batch[];
  readonly options: Readonly<Record<string, unknown>>;
}

const unit = numbers(21, 0, 1);
const bits = (shape: readonly number[]) => filled(shape, () => (unit() < 0.4 ? 1 : 0));
const classes = (shape: readonly number[]) => filled(shape, () => Math.floor(unit() * 3));
const halves = (shape: readonly number[]) => filled(shape, () => Math.floor(unit() * 4) / 2);
const batches = (make: () => Batch): Batch[] => [make(), make(), make()];

const scored = (weighted: boolean) => () => ({
  labels: bits([40]),
  predictions: filled([40], unit),
  ...(weighted ? { weights: halves([40]) } : {}),
});

const cases: Case[] = [
  { title: 'mean', metric: 'mean', options: {}, batches: batches(() => ({ values: filled([3, 2], unit) })) },
  {
    title: 'mean with weights by row',
    metric: 'mean',
    options: {},
    batches: batches(() => ({ values: filled([3, 2], unit), weights: halves([3, 1]) })),
  },
  {
    title: 'accuracy',
    metric: 'accuracy',
    options: {},
    batches: batches(() => ({ labels: classes([9]), predictions: classes([9]) })),
  },
  {
    title: 'accuracy with weights, labels in a column',
    metric: 'accuracy',
    options: {},
    batches: batches(() => ({ labels: classes([9, 1]), predictions: classes([9]), weights: halves([9]) })),
  },
  {
    title: 'accuracy with weights of 0',
    metric: 'accuracy',
    options: {},
    batches: [{ labels: [1, 2], predictions: [1, 2], weights: [0, 0] }],
  },
  ...(['precision', 'recall'] as const).flatMap((metric): Case[] => [
    {
      title: metric,
      metric,
      options: {},
      batches: batches(() => ({ labels: bits([9]), predictions: bits([9]) })),
    },
    {
      title: `${metric} with weights`,
      metric,
      options: {},
      batches: batches(() => ({ labels: bits([9]), predictions: bits([9]), weights: halves([9]) })),
    },
    {
      title: `${metric} of nothing`,
      metric,
      options: {},
      batches: [{ labels: [0, 0], predictions: [0, 0] }],
    },
  ]),
  {
    title: 'meanSquaredError',
    metric: 'meanSquaredError',
    options: {},
    batches: batches(() => ({ labels: filled([4, 2], unit), predictions: filled([4, 2], unit) })),
  },
  ...(['ROC', 'PR'] as const).flatMap((curve) =>
    (['trapezoidal', 'carefulInterpolation', 'minoring', 'majoring'] as const).map(
      (summationMethod): Case => ({
        title: `auc ${curve} ${summationMethod}`,
        metric: 'auc',
        options: { curve, summationMethod },
        batches: batches(scored(false)),
      }),
    ),
  ),
  { title: 'auc with weights', metric: 'auc', options: {}, batches: batches(scored(true)) },
  {
    title: 'auc PR with weights',
    metric: 'auc',
    options: { curve: 'PR', summationMethod: 'carefulInterpolation' },
    batches: batches(scored(true)),
  },
  {
    title: 'auc with few thresholds',
    metric: 'auc',
    options: { numThresholds: 5 },
    batches: batches(scored(false)),
  },
  {
    title: 'auc with given thresholds',
    metric: 'auc',
    options: { thresholds: [0.7, 0.2, 0.5] },
    batches: batches(scored(false)),
  },
  {
    title: 'auc with predictions of exactly 0 and 1, labels in a column',
    metric: 'auc',
    options: {},
    batches: [{ labels: [[0], [1], [1], [0]], predictions: [0, 1, 0, 1] }],
  },
];

async function compute({ metric, batches: list, options }: Case) {
  using graph = new Graph();
  return await graph.asDefault(async () => {
    const shapes = Object.entries(list[0] as Batch).map(
      ([name, value]) => [name, constant(value as never).shape] as const,
    );
    const places: Record<string, Output> = Object.fromEntries(
      shapes.map(([name, shape]) => [name, placeholder({ shape, name })]),
    );
    const { labels, predictions, values, ...weights } = places;
    const made =
      metric === 'mean'
        ? metrics.mean(values as Output, { ...options, ...weights })
        : metrics[metric](labels as Output, predictions as Output, { ...options, ...weights });
    await using session = Session.open({ graph });
    await session.run(localVariablesInitializer());
    const results = [(await session.run(made.value)).number()];
    for (const batch of list) {
      const feeds = Object.entries(places).map(
        ([name, place]) => [place, batch[name] as TensorLike] as const,
      );
      results.push((await session.run(made.updateOp, { feeds })).number());
      results.push((await session.run(made.value)).number());
    }
    await session.run(made.reset);
    return {
      values: results,
      variables: localVariables().map(({ name }) => name),
      afterReset: (await session.run(made.value)).number(),
    };
  });
}

describe('metrics as TensorFlow computes them', () => {
  let expected: { values: number[]; variables: string[] }[];
  beforeAll(async () => {
    expected = await askOracle('metrics', cases);
  }, 240_000);

  it.each(cases.map((one, i) => [one.title, one, i] as const))('%s', async (_title, one, i) => {
    const actual = await compute(one);
    expectClose(actual.values, expected[i]?.values, 2e-6);
    expect([...actual.variables].sort()).toEqual([...(expected[i]?.variables ?? [])].sort());
    expect(actual.afterReset).toBe(actual.values[0]);
  });
});

describe('metrics of a graph', () => {
  it('are all reset by one op', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const one = metrics.mean([1, 2]);
      const two = metrics.mean([5], { name: 'second' });
      const again = metrics.mean([7]);
      expect(localVariables().map(({ name }) => name)).toEqual([
        'mean/total',
        'mean/count',
        'second/total',
        'second/count',
        'mean_1/total',
        'mean_1/count',
      ]);
      await using session = Session.open({ graph });
      await session.run(localVariablesInitializer());
      await session.run([one.updateOp, two.updateOp, again.updateOp]);
      await session.run(metrics.resetMetrics());
      const values = await session.run([one.value, two.value, again.value]);
      expect(values.map((value) => value.number())).toEqual([0, 0, 0]);
    });
  });

  it('fail the run if a prediction for auc is outside [0, 1]', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const { updateOp } = metrics.auc([1, 0], [0.5, 2]);
      await using session = Session.open({ graph });
      await session.run(localVariablesInitializer());
      await expect(session.run(updateOp)).rejects.toThrow(/predictions must be between 0 and 1/);
    });
  });

  it('reject an unknown curve or summation method, and list the valid ones', () => {
    using graph = new Graph();
    graph.asDefault(() => {
      expect(() => metrics.auc([1], [1], { curve: 'roc' as never })).toThrow(/use one of ROC, PR/);
      expect(() => metrics.auc([1], [1], { summationMethod: 'simpson' as never })).toThrow(
        /use one of trapezoidal, carefulInterpolation, minoring, majoring/,
      );
    });
  });
});
