/** Layers with given weights: results, gradients and moving averages match TensorFlow's. */
import { beforeAll, describe, expect, it } from 'vitest';
import { gradients } from '../gradients/index.js';
import { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { library } from '../native/library/library.js';
import { cast, constant, mul, placeholder, range, relu, reshape, sum } from '../ops/index.js';
import { Session } from '../session/session.js';
import type { NestedValue } from '../tensor/literal.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys, globalVariables, globalVariablesInitializer } from '../variables/index.js';
import { averagePooling2d, batchNorm, conv2d, dense, dropout, layerNorm, maxPooling2d } from './layers.js';
import * as regularizers from './regularizers.js';
import { expectClose, filled, numbers } from './testing/compare.js';
import { askOracle } from './testing/oracle.js';

type LayerName = 'dense' | 'conv2d' | 'maxPooling2d' | 'averagePooling2d' | 'batchNorm' | 'layerNorm';
type Options = Readonly<Record<string, unknown>>;

interface Case {
  readonly title: string;
  readonly layer: LayerName;
  readonly x: unknown;
  readonly weights: Readonly<Record<string, unknown>>;
  readonly options: Options;
}

const next = numbers(11, -2, 2);
const positive = numbers(12, 0.5, 2);
const norm = (size: number) => ({
  gamma: filled([size], next),
  beta: filled([size], next),
  moving_mean: filled([size], next),
  moving_variance: filled([size], positive),
});

const DILATED = { dilations: 2, padding: 'same' };
/** On CPUs only oneDNN implements the gradients of a dilated convolution. */
const hasDilatedGradients = library().oneDnn !== false;

const convolution = (options: Options): Case => ({
  title: `conv2d ${JSON.stringify(options)}`,
  layer: 'conv2d',
  x: filled([2, 5, 6, 2], next),
  weights: { kernel: filled([3, 3, 2, 4], next), bias: filled([4], next) },
  options,
});

const cases: Case[] = [
  {
    title: 'dense',
    layer: 'dense',
    x: filled([4, 3], next),
    weights: { kernel: filled([3, 2], next), bias: filled([2], next) },
    options: {},
  },
  {
    title: 'dense over the last of three axes, without bias',
    layer: 'dense',
    x: filled([2, 4, 3], next),
    weights: { kernel: filled([3, 2], next) },
    options: {},
  },
  ...[
    {},
    { padding: 'same' },
    { padding: 'same', strides: 2 },
    { strides: [2, 1] },
    ...(hasDilatedGradients ? [DILATED] : []),
  ].map(convolution),
  ...(['maxPooling2d', 'averagePooling2d'] as const).flatMap((layer) =>
    [{ size: 2 }, { size: 3, strides: 2, padding: 'same' }, { size: [2, 1] }].map(
      (options): Case => ({
        title: `${layer} ${JSON.stringify(options)}`,
        layer,
        x: filled([2, 5, 6, 2], next),
        weights: {},
        options,
      }),
    ),
  ),
  ...[true, false].flatMap((training): Case[] => [
    {
      title: `batchNorm of rows, training ${training}`,
      layer: 'batchNorm',
      x: filled([5, 3], next),
      weights: norm(3),
      options: { training },
    },
    {
      title: `batchNorm of images, training ${training}`,
      layer: 'batchNorm',
      x: filled([2, 3, 4, 3], next),
      weights: norm(3),
      options: { training, momentum: 0.9, epsilon: 0.01 },
    },
    {
      title: `batchNorm of images, not fused, training ${training}`,
      layer: 'batchNorm',
      x: filled([2, 3, 4, 3], next),
      weights: norm(3),
      options: { training, fused: false },
    },
    {
      title: `batchNorm along axis 1, training ${training}`,
      layer: 'batchNorm',
      x: filled([2, 3, 4], next),
      weights: norm(3),
      options: { training, axis: 1 },
    },
  ]),
  {
    title: 'layerNorm',
    layer: 'layerNorm',
    x: filled([4, 5], next),
    weights: { gamma: filled([5], next), beta: filled([5], next) },
    options: {},
  },
  {
    title: 'layerNorm over axis 1 of three',
    layer: 'layerNorm',
    x: filled([2, 4, 3], next),
    weights: { gamma: filled([4], next), beta: filled([4], next) },
    options: { axis: 1, epsilon: 0.1 },
  },
];

/** The layer option that sets the initial value of a weight. */
const INITIALIZERS: Readonly<Record<string, string>> = {
  kernel: 'kernelInitializer',
  bias: 'biasInitializer',
  gamma: 'gammaInitializer',
  beta: 'betaInitializer',
  moving_mean: 'movingMeanInitializer',
  moving_variance: 'movingVarianceInitializer',
};

function build(one: Case, x: Output, change: Options = {}): Output {
  const given = Object.entries(one.weights).map(([name, value]) => [INITIALIZERS[name], value]);
  const options = { ...one.options, ...Object.fromEntries(given), ...change };
  const { size = 2, strides = size, ...rest } = one.options as { size?: number; strides?: number };
  switch (one.layer) {
    case 'dense': {
      const [inputs, units] = constant(one.weights.kernel as NestedValue).shape as [number, number];
      expect(x.shape?.at(-1)).toBe(inputs);
      const useBias = 'bias' in one.weights;
      return dense(x, units, { ...options, useBias, ...(useBias ? { activation: relu } : {}) });
    }
    case 'conv2d':
      return conv2d(x, 4, 3, options);
    case 'maxPooling2d':
      return maxPooling2d(x, size, strides, rest);
    case 'averagePooling2d':
      return averagePooling2d(x, size, strides, rest);
    case 'batchNorm':
      return batchNorm(x, options);
    case 'layerNorm':
      return layerNorm(x, options);
  }
}

/** The result, gradients of Σ y · 1, 2, 3, …, and the moving averages after one step. */
async function compute(
  one: Case,
  unknownBatch: boolean,
  change: Options = {},
  extraFeeds: [Output, boolean][] = [],
) {
  const graph = (extraFeeds[0]?.[0].graph as Graph | undefined) ?? new Graph();
  return await graph.asDefault(async () => {
    const value = Tensor.of(one.x as NestedValue);
    const shape = unknownBatch ? [null, ...value.shape.slice(1)] : value.shape;
    const x = placeholder({ shape });
    const y = build(one, x, change);
    const size = sizeOf((await shapeOf(graph, y, x, value, extraFeeds)) as number[]);
    const factors = cast(range(1, size + 1), 'float32');
    const loss = sum(mul(reshape(y, [-1]), factors));
    const variables = globalVariables(graph);
    const learned = variables.filter(({ trainable }) => trainable);
    const grads = gradients(loss, [x, ...learned]) as Output[];
    const updates = graph.getCollection<Operation>(GraphKeys.updateOps);
    await using session = Session.open({ graph });
    await session.run(globalVariablesInitializer(graph));
    const feeds = new Map<Output, Tensor | boolean>([[x, value], ...extraFeeds]);
    const values = await session.run({ y, grads }, { feeds });
    if (updates.length > 0) await session.run(updates, { feeds });
    const moving = variables.filter(({ trainable }) => !trainable);
    const averages = moving.length > 0 ? await session.run(moving) : [];
    const short = (name: string) => name.split('/').at(-1) as string;
    const names = ['x', ...learned.map(({ name }) => short(name))];
    return {
      y: values.y.toArray(),
      gradients: Object.fromEntries(values.grads.map((grad, i) => [names[i], grad.toArray()])),
      moving: Object.fromEntries(
        averages.map((average, i) => [short(moving[i]?.name as string), average.toArray()]),
      ),
    };
  });
}

/** The shape of the result at run time. */
async function shapeOf(
  graph: Graph,
  y: Output,
  x: Output,
  value: Tensor,
  extraFeeds: [Output, boolean][],
): Promise<readonly number[]> {
  await using session = Session.open({ graph });
  await session.run(globalVariablesInitializer(graph));
  return (await session.run(y, { feeds: new Map<Output, Tensor | boolean>([[x, value], ...extraFeeds]) }))
    .shape;
}

interface Answer {
  readonly y: unknown;
  readonly gradients: Readonly<Record<string, unknown>>;
  readonly moving: Readonly<Record<string, unknown>>;
}

const dropouts = [
  { layer: 'dropout', x: filled([3, 4], positive), options: { rate: 0.4, seed: 5 } },
  { layer: 'dropout', x: filled([3, 4], positive), options: { rate: 0.5, seed: 9, noiseShape: [3, 1] } },
];
const penalties = [
  { layer: 'regularizer', kind: 'L1', scale: 0.3, x: filled([3, 4], next) },
  { layer: 'regularizer', kind: 'L2', scale: 0.3, x: filled([3, 4], next) },
];

let expected: Answer[];
beforeAll(async () => {
  expected = await askOracle<Answer>('layers', [...cases, ...dropouts, ...penalties]);
}, 240_000);

function expectAnswer(actual: Answer, answer: Answer | undefined): void {
  expectClose(actual.y, answer?.y, 5e-6, 1);
  expect(Object.keys(actual.gradients).sort()).toEqual(Object.keys(answer?.gradients ?? {}).sort());
  for (const [name, gradient] of Object.entries(actual.gradients)) {
    expectClose(gradient, answer?.gradients[name], 2e-5, 100);
  }
  for (const [name, average] of Object.entries(actual.moving)) {
    expectClose(average, answer?.moving[name], 5e-6, 1);
  }
}

describe('layers as TensorFlow computes them', () => {
  it.each(cases.map((one, i) => [one.title, one, i] as const))('%s', async (_title, one, i) => {
    expectAnswer(await compute(one, false), expected[i]);
  });

  it.each(cases.map((one, i) => [one.title, one, i] as const))(
    '%s, for any batch',
    async (_title, one, i) => {
      expectAnswer(await compute(one, true), expected[i]);
    },
  );
});

it.skipIf(hasDilatedGradients)(
  'the gradient of a dilated convolution fails with a hint to turn oneDNN on',
  async () => {
    await expect(compute(convolution(DILATED), false)).rejects.toMatchObject({
      code: 'SHOAL_TF_INVALID_ARGUMENT',
      hint: expect.stringContaining('oneDNN'),
    });
  },
);

describe('batchNorm with `training` as a tensor', () => {
  const chosen = cases.flatMap((one, i) => (one.layer === 'batchNorm' ? [[one.title, one, i] as const] : []));
  it.each(chosen)('%s', async (_title, one, i) => {
    using graph = new Graph();
    const flag = graph.asDefault(() => placeholder({ dtype: 'bool', shape: [] }));
    const training = one.options.training as boolean;
    expectAnswer(await compute(one, false, { training: flag }, [[flag, training]]), expected[i]);
  });
});

describe('dropout', () => {
  it.each(dropouts.map((one, i) => [JSON.stringify(one.options), one, i] as const))(
    'with %s drops the same elements as TensorFlow in each run',
    async (_title, { x, options }, i) => {
      using graph = new Graph();
      await graph.asDefault(async () => {
        const y = dropout(x as number[][], { ...options, training: true });
        await using session = Session.open({ graph });
        const runs: unknown[] = [];
        for (let run = 0; run < 3; run++) runs.push((await session.run(y)).toArray());
        expectClose(runs, expected[cases.length + i]?.y);
      });
    },
  );

  it('returns values unchanged outside training, also with `training` as a tensor', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const flag = placeholder({ dtype: 'bool', shape: [] });
      const x = constant([1, 2, 3, 4]);
      const [fixed, switched] = [
        dropout(x, { rate: 0.9 }),
        dropout(x, { rate: 0.9, training: flag, seed: 1 }),
      ];
      const gradient = gradients(switched.sum(), [x])[0] as Output;
      await using session = Session.open({ graph });
      const off = await session.run([fixed, switched, gradient], { feeds: [[flag, false]] });
      expect(off.map((value) => value.toArray())).toEqual([
        [1, 2, 3, 4],
        [1, 2, 3, 4],
        [1, 1, 1, 1],
      ]);
      const on = await session.run([switched, gradient], { feeds: [[flag, true]] });
      const [values, slopes] = on.map((value) => value.toArray() as number[]) as [number[], number[]];
      values.forEach((value, i) => {
        expect(value).toBeCloseTo((slopes[i] as number) * (i + 1), 4);
      });
      expect(values).toContain(0);
    });
  });

  it('keeps the expected sum', async () => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const y = dropout(constant(new Float32Array(20_000).fill(1)), { rate: 0.3, training: true, seed: 2 });
      await using session = Session.open({ graph });
      const values = [...(await session.run(y)).data] as number[];
      expect(values.reduce((a, b) => a + b) / values.length).toBeCloseTo(1, 1);
      expect(values.filter((value) => value === 0).length / values.length).toBeCloseTo(0.3, 1);
    });
  });

  it('rejects a rate outside [0, 1)', () => {
    using graph = new Graph();
    expect(() => graph.asDefault(() => dropout([1], { rate: 1 }))).toThrow(/must be in \[0, 1\); got 1/);
  });
});

describe('regularizers', () => {
  it.each(penalties.map((one, i) => [one.kind, one, i] as const))('%s', async (_kind, one, i) => {
    using graph = new Graph();
    await graph.asDefault(async () => {
      const make = one.kind === 'L1' ? regularizers.l1 : regularizers.l2;
      await using session = Session.open({ graph });
      const value = await session.run(make(one.scale)(constant(one.x as NestedValue)));
      expectClose(value.number(), expected[cases.length + dropouts.length + i]?.y, 2e-6);
    });
  });
});
