/** Every loss and metric that has a name equals Keras': values, gradients by the predictions, weights of examples. */
import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { gradients } from '../../../tensorflow/gradients/index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { Session } from '../../../tensorflow/session/session.js';
import { seededRandom } from '../../../tensorflow/tensor/seeded-random.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { localVariables } from '../../../tensorflow/variables/variable-scope.js';
import { compiled } from './compile.js';
import { LOSSES, type LossName } from './losses.js';
import { METRICS, type MetricName } from './metrics.js';
import { metricsOf, modelParts } from './model-graph.js';

const random = seededRandom(3);
const matrix = (rows: number, columns: number, make: () => number): number[][] =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, make));
const ROWS = 8;
const probabilities = matrix(ROWS, 6, () => random() + 0.05).map((row) => {
  const total = row.reduce((a, b) => a + b);
  return row.map((value) => value / total);
});
const classes = Array.from({ length: ROWS }, (_, i) => (i * 5) % 6);
const weights = Array.from({ length: ROWS }, () => random() + 0.5);

/** Labels and predictions that a loss or metric takes. */
const DATA = {
  regression: { y: matrix(ROWS, 3, () => random() + 0.2), p: matrix(ROWS, 3, () => random() * 2 + 0.1) },
  binary: {
    y: matrix(ROWS, 1, () => (random() < 0.5 ? 0 : 1)),
    p: matrix(ROWS, 1, () => random() * 0.9 + 0.05),
  },
  categorical: {
    y: classes.map((own) => probabilities[0]!.map((_, i) => (i === own ? 1 : 0))),
    p: probabilities,
  },
  sparse: { y: classes, p: probabilities },
};
type Kind = keyof typeof DATA;

const kindOf = (name: string): Kind => {
  if (/^(sparse|topK$|acc)/.test(name)) return 'sparse';
  if (/^(categorical|topKCategorical|kl)/.test(name)) return 'categorical';
  return /^(binary|bce|auc|precision|recall|hinge|squaredHinge)/.test(name) ? 'binary' : 'regression';
};
/** The same in Python, where the names differ. */
const PYTHON: Readonly<Record<string, string>> = {
  acc: 'accuracy',
  topK: 'sparse_top_k_categorical_accuracy',
  topKCategoricalAccuracy: 'top_k_categorical_accuracy',
  sparseTopKCategoricalAccuracy: 'sparse_top_k_categorical_accuracy',
  kld: 'kl_divergence',
  klDivergence: 'kl_divergence',
};
const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

interface Case {
  readonly title: string;
  readonly kind: 'loss' | 'metric';
  readonly name: string;
  readonly weighted: boolean;
}
const cases: readonly Case[] = [false, true].flatMap((weighted) => [
  ...Object.keys(LOSSES).map((name): Case => ({ title: `the loss ${name}`, kind: 'loss', name, weighted })),
  ...Object.keys(METRICS).map(
    (name): Case => ({ title: `the metric ${name}`, kind: 'metric', name, weighted }),
  ),
]);
interface Answer {
  readonly error?: string;
  readonly value: number;
  readonly gradient?: readonly (readonly number[])[];
}

async function ours({ kind, name, weighted }: Case): Promise<Answer> {
  const { y, p } = DATA[kindOf(name)];
  using graph = new Graph();
  const loss = (kind === 'loss' ? name : 'mse') as LossName;
  const metric = (kind === 'metric' ? [name] : []) as MetricName[];
  const plan = compiled(
    {
      optimizer: 'sgd',
      loss: kind === 'loss' ? loss : (_y, q) => q.mean(-1),
      weightedMetrics: weighted ? metric : [],
      metrics: weighted ? [] : metric,
    },
    ['prediction'],
  );
  const built = graph.asDefault(() => {
    const shapes = [Tensor.of(y).shape, Tensor.of(p).shape];
    const [labels, predictions] = shapes.map((shape) =>
      placeholder({ dtype: 'float32', shape: [null, ...shape.slice(1)] }),
    ) as [Output, Output];
    const factors = weighted ? placeholder({ dtype: 'float32', shape: [null] }) : undefined;
    const given = { ys: [labels], weights: factors };
    const parts = modelParts(plan, { outputs: [predictions], masks: [undefined] }, given);
    const [gradient] = kind === 'loss' ? gradients([parts.loss], [predictions]) : [undefined];
    return {
      labels,
      predictions,
      factors,
      parts,
      gradient: gradient as Output,
      metrics: metricsOf(plan, parts, given),
    };
  });
  const session = Session.open({ graph });
  const feeds = (from: number, to: number) => [
    [built.labels, (y as number[][]).slice(from, to)] as const,
    [built.predictions, p.slice(from, to)] as const,
    ...(built.factors ? [[built.factors, weights.slice(from, to)] as const] : []),
  ];
  try {
    if (kind === 'loss') {
      const [value, gradient] = await session.run([built.parts.loss, built.gradient], {
        feeds: feeds(0, ROWS),
      });
      return { value: value.number(), gradient: gradient.toArray() as number[][] };
    }
    const { updateOp, value } = built.metrics[name]!;
    await session.run(localVariables(graph).map(({ initializer }) => initializer));
    for (const from of [0, ROWS / 2]) await session.run(updateOp, { feeds: feeds(from, from + ROWS / 2) });
    return { value: (await session.run(value)).number() };
  } finally {
    await session.close();
  }
}

describe('equals Keras', () => {
  const found = new Map<Case, { readonly own: Answer | Error; readonly theirs: Answer }>();

  beforeAll(async () => {
    const own: (Answer | Error)[] = [];
    for (const one of cases) own.push(await ours(one).catch((error: Error) => error));
    const requests = cases.map(({ kind, name, weighted }) => {
      const data = kindOf(name);
      return {
        kind,
        keras: PYTHON[name] ?? snake(name),
        ...DATA[data],
        ...(data === 'sparse' && { dtype: 'int32' }),
        accuracy: 'sparse_categorical_accuracy',
        weights: weighted ? weights : null,
      };
    });
    const theirs = await askPython<readonly Answer[]>(
      new URL('../testing/losses.py', import.meta.url),
      requests,
    );
    for (const [i, one] of cases.entries()) found.set(one, { own: own[i]!, theirs: theirs[i]! });
  }, 300_000);

  test.each(cases.map((one) => [`${one.title}${one.weighted ? ' with weights' : ''}`, one] as const))(
    '%s',
    (_title, one) => {
      const { own, theirs } = found.get(one)!;
      expect(theirs.error).toBeUndefined();
      if (own instanceof Error) throw own;
      const close = (a: number, b: number) =>
        expect(Math.abs(a - b) / Math.max(1, Math.abs(b))).toBeLessThan(1e-5);
      close(own.value, theirs.value);
      for (const [i, row] of (own.gradient ?? []).entries())
        for (const [j, value] of row.entries()) close(value, theirs.gradient![i]![j]!);
    },
  );
});
