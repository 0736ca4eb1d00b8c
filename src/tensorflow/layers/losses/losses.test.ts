/** Every loss with weights, reductions and smoothing: values and gradients match Python TensorFlow's. */
import { beforeAll, describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { describeError, isShoalError } from '../../../base/errors/errors.js';
import { gradients } from '../../gradients/index.js';
import { Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import type { Operand } from '../../ops/build.js';
import { constant, type NamedOperands, placeholder } from '../../ops/index.js';
import { Session } from '../../session/session.js';
import { losses, regularizers } from '../index.js';
import { dense } from '../layers.js';
import { expectClose, filled, numbers } from '../testing/compare.js';
import { askOracle } from '../testing/oracle.js';
import type { LossOptions } from './index.js';

type LossName =
  | 'softmaxCrossEntropy'
  | 'sparseSoftmaxCrossEntropy'
  | 'sigmoidCrossEntropy'
  | 'hinge'
  | 'log'
  | 'meanSquared'
  | 'absoluteDifference'
  | 'huber';

interface Case {
  readonly title: string;
  readonly loss: LossName;
  readonly labels: unknown;
  readonly predictions: unknown;
  readonly options: Readonly<Record<string, unknown>>;
}

const REDUCTIONS = ['none', 'sum', 'mean', 'sumOverBatchSize', 'sumByNonzeroWeights'] as const;
const next = numbers(7);
const bit = numbers(8, 0, 1);
const logits = filled([4, 3], () => next() * 5);
const probabilities = filled([4, 3], () => bit());
const yesNo = filled([4, 3], () => (bit() < 0.5 ? 0 : 1));
const oneHot = [
  [0, 1, 0],
  [1, 0, 0],
  [0, 0, 1],
  [0, 1, 0],
];

/** Valid labels and predictions for each loss, and weights for its elements. */
const INPUTS: Record<LossName, { labels: unknown; predictions: unknown; perElement: boolean }> = {
  softmaxCrossEntropy: { labels: oneHot, predictions: logits, perElement: false },
  sparseSoftmaxCrossEntropy: { labels: [1, 0, 2, 1], predictions: logits, perElement: false },
  sigmoidCrossEntropy: { labels: yesNo, predictions: logits, perElement: true },
  hinge: { labels: yesNo, predictions: logits, perElement: true },
  log: { labels: yesNo, predictions: probabilities, perElement: true },
  meanSquared: { labels: filled([4, 3], next), predictions: logits, perElement: true },
  absoluteDifference: { labels: filled([4, 3], next), predictions: logits, perElement: true },
  huber: { labels: filled([4, 3], next), predictions: logits, perElement: true },
};

const cases: Case[] = Object.entries(INPUTS).flatMap(([name, { labels, predictions, perElement }]) => {
  const loss = name as LossName;
  const make = (title: string, options: Case['options']): Case => ({
    title: `${loss} ${title}`,
    loss,
    labels,
    predictions,
    options,
  });
  const perExample = [0.5, 0, 2, 1.5];
  const weights = perElement ? perExample.map((weight) => [weight]) : perExample;
  return [
    make('with defaults', {}),
    ...REDUCTIONS.map((reduction) => make(`weighted, ${reduction}`, { weights, reduction })),
    make('with one weight', { weights: 3 }),
    make('with weight 0', { weights: 0 }),
  ];
});

const extra = (
  loss: LossName,
  title: string,
  options: Case['options'],
  change: Partial<Case> = {},
): Case => ({
  title: `${loss} ${title}`,
  loss,
  labels: INPUTS[loss].labels,
  predictions: INPUTS[loss].predictions,
  options,
  ...change,
});

cases.push(
  extra('softmaxCrossEntropy', 'smoothed', { labelSmoothing: 0.1 }),
  extra('sigmoidCrossEntropy', 'smoothed', { labelSmoothing: 0.2 }),
  extra('huber', 'with another delta', { delta: 0.3 }),
  extra('log', 'with another epsilon', { epsilon: 0.01 }),
  extra(
    'sparseSoftmaxCrossEntropy',
    'with a column of labels and of weights',
    { weights: [[1], [0], [2], [3]] },
    {
      labels: [[1], [0], [2], [1]],
    },
  ),
  extra('meanSquared', 'with a weight for each element', { weights: filled([4, 3], bit) }),
  extra(
    'sparseSoftmaxCrossEntropy',
    'of sequences',
    { weights: filled([2, 2], bit) },
    {
      labels: [
        [0, 2],
        [1, 1],
      ],
      predictions: filled([2, 2, 3], next),
    },
  ),
  extra(
    'softmaxCrossEntropy',
    'of sequences',
    {},
    {
      labels: [oneHot.slice(0, 2), oneHot.slice(2)],
      predictions: filled([2, 2, 3], next),
    },
  ),
);

async function compute({ loss, labels, predictions, options }: Case): Promise<unknown[]> {
  using graph = new Graph();
  return await graph.asDefault(async () => {
    const x = constant(predictions as never);
    const apply = losses[loss] as NamedOperands<string, string, LossOptions>;
    const y = apply(labels as Operand, x, options);
    const gradient = gradients(y, [x])[0] as Output;
    const total = y.rank === 0 ? losses.getTotalLoss() : y;
    await using session = Session.open({ graph });
    const values = await session.run([y, gradient, total]);
    return values.map((value) => value.toArray());
  });
}

describe('losses as TensorFlow computes them', () => {
  let expected: unknown[][];
  beforeAll(async () => {
    expected = await askOracle<unknown[]>('losses', cases);
  }, 240_000);

  it.each(cases.map((one, i) => [one.title, one, i] as const))('%s', async (_title, one, i) => {
    const actual = await compute(one);
    actual.forEach((value, at) => {
      expectClose(value, expected[i]?.[at], 2e-6, 0.1);
    });
  });
});

describe('the total loss', () => {
  it('adds the losses and the weight penalties', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const x = constant([[1, 2]]);
      const y = dense(x, 1, {
        kernelInitializer: [[3], [4]],
        kernelRegularizer: regularizers.l2(0.5),
        biasInitializer: [2],
        biasRegularizer: regularizers.l1(0.25),
      });
      losses.meanSquared([[10]], y);
      losses.addLoss(constant(100));
      const total = losses.getTotalLoss();
      const penalty = losses.getRegularizationLoss() as Output;
      const bare = losses.getTotalLoss({ addRegularizationLosses: false });
      await using session = Session.open({ graph });
      await session.run(graph.getCollection<{ initializer: never }>('variables').map((v) => v.initializer));
      const values = await session.run([total, penalty, bare]);
      expect(values.map((value) => value.number())).toEqual([100 + 9 + 12.5 + 0.5, 13, 109]);
    });
  });

  it('is an error without losses', () => {
    using graph = new Graph();
    expect(() => losses.getTotalLoss({ graph })).toThrow(/has no losses/);
  });

  it('rejects a loss that is not a scalar', () => {
    using graph = new Graph();
    graph.asDefault(() => losses.meanSquared([1, 2], [3, 4], { reduction: 'none' }));
    expect(() => losses.getTotalLoss({ graph })).toThrow(
      described(/is in the collection of losses but is not a scalar.*\n.*collection: null/),
    );
  });
});

describe('bad input to a loss', () => {
  const failure = (make: () => unknown): Error => {
    using graph = new Graph();
    try {
      graph.asDefault(make);
    } catch (error) {
      expect(isShoalError(error, 'SHOAL_INVALID_ARGUMENT')).toBe(true);
      return error as Error;
    }
    throw new Error('no error was thrown');
  };

  it('lists the valid reductions for an unknown one', () => {
    const error = failure(() => losses.meanSquared([1], [2], { reduction: 'average' as never }));
    expect(error.message).toBe(
      "Unknown reduction 'average'; use one of none, sum, mean, sumOverBatchSize, sumByNonzeroWeights",
    );
  });

  it('shows both shapes and the op when labels and predictions differ', () => {
    const error = failure(() =>
      losses.meanSquared(
        placeholder({ shape: [null, 3], name: 'labels' }),
        placeholder({ shape: [null, 4], name: 'guess' }),
      ),
    );
    expect(error.message).toMatch(/labels have shape \[\?, 3\], predictions \[\?, 4\]/);
    expect(describeError(error)).toMatch(/'guess:0'/);
  });

  it('shows both shapes if weights do not broadcast', () => {
    const error = failure(() => losses.meanSquared([[1, 2]], [[3, 4]], { weights: [1, 2, 3] }));
    expect(error.message).toMatch(/Weights of shape \[3\] do not broadcast to losses of shape \[1, 2\]/);
  });

  it('rejects labels that are not integers, with a hint how to convert them', () => {
    const error = failure(() => losses.sparseSoftmaxCrossEntropy(constant([1.5]), [[1, 2]]));
    expect(describeError(error)).toMatch(
      /Labels .* must be int32 or int64; .* is float32\n.*cast\('int64'\)/,
    );
  });

  it('rejects smoothing outside [0, 1]', () => {
    const error = failure(() => losses.sigmoidCrossEntropy([1], [2], { labelSmoothing: 1.5 }));
    expect(error.message).toMatch(/labelSmoothing must be in \[0, 1\]; got 1.5/);
  });
});
