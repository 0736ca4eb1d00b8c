/** Optimizers, losses and metrics by name, with the defaults of Keras. */
import { invalid } from '../../base/errors/errors.js';
import type { Output, OutputLike } from '../../tensorflow/graph/operation.js';
import {
  sigmoidCrossEntropy,
  softmaxCrossEntropy,
  sparseSoftmaxCrossEntropy,
} from '../../tensorflow/layers/losses/classification.js';
import { absoluteDifference, huber, meanSquared } from '../../tensorflow/layers/losses/regression.js';
import * as metrics from '../../tensorflow/layers/metrics/index.js';
import { expandDims, squeeze } from '../../tensorflow/ops/arrays.js';
import { argMax, cast, clipByValue, greater, log, log1p, neg, sub } from '../../tensorflow/ops/math.js';
import { CombinedOptimizer, type OptimizerEntry } from '../../tensorflow/optimizers/combined.js';
import { Optimizer } from '../../tensorflow/optimizers/optimizer.js';
import { AdagradOptimizer } from '../../tensorflow/optimizers/rules/adagrad.js';
import { AdamOptimizer } from '../../tensorflow/optimizers/rules/adam.js';
import { GradientDescentOptimizer } from '../../tensorflow/optimizers/rules/gradient-descent.js';
import type { StreamingMetric } from '../../training/train/evaluation/evaluate.js';

/** The loss of a batch, a scalar. */
export type LossFunction = (labels: Output, predictions: Output) => OutputLike;
/** A streaming metric, as `tf.metrics` returns it. */
export type MetricFunction = (labels: Output, predictions: Output) => StreamingMetric;

export type Loss = LossFunction | LossName;

export interface CompileOptions {
  /** An optimizer such as `tf.train.adam(0.01)`, or its name, for the defaults of Keras; or several, as for a job. */
  readonly optimizer: Optimizer | OptimizerName | readonly OptimizerEntry[];
  /**
   * A function such as `tf.losses.sparseSoftmaxCrossEntropy`, which takes logits, or the name of a loss. For a model of
   * several outputs: one for all, a list, or by the names of the outputs; the model trains on their sum.
   */
  readonly loss: Loss | readonly Loss[] | Readonly<Record<string, Loss>>;
  /**
   * Names of metrics, or functions such as `tf.metrics.auc` by name; default: none, only the loss. For a model of several
   * outputs each has them all, as `OUTPUT_accuracy`.
   */
  readonly metrics?: readonly MetricName[] | Readonly<Record<string, MetricFunction>>;
}

/** An output of the model, in order. */
export interface CompiledOutput {
  readonly name: string;
  readonly loss: LossFunction;
  /** Whether the labels are numbers of classes. */
  readonly takesClasses: boolean;
}

export interface Compiled {
  readonly optimizer: Optimizer;
  readonly outputs: readonly CompiledOutput[];
  readonly metrics: Readonly<Record<string, MetricFunction>>;
}

const OPTIMIZERS = {
  sgd: () => new GradientDescentOptimizer(0.01),
  adagrad: () => new AdagradOptimizer(0.001),
  adam: () => new AdamOptimizer(0.001, { epsilon: 1e-7 }),
} satisfies Record<string, () => Optimizer>;

const LOSSES = {
  meanSquaredError: (labels, p) => meanSquared(alike(labels, p), p),
  meanAbsoluteError: (labels, p) => absoluteDifference(alike(labels, p), p),
  huber: (labels, p) => huber(alike(labels, p), p),
  /** Labels 0 and 1, predictions between. */
  binaryCrossentropy: (labels, p) => sigmoidCrossEntropy(alike(labels, p), logitsOf(p, 'Sigmoid')),
  /** Labels as one-hot rows, predictions as probabilities of the classes. */
  categoricalCrossentropy: (labels, p) => softmaxCrossEntropy(labels, logitsOf(p, 'Softmax')),
  /** Labels as class numbers, predictions as probabilities of the classes. */
  sparseCategoricalCrossentropy: (labels, p) =>
    sparseSoftmaxCrossEntropy(cast(labels, 'int64'), logitsOf(p, 'Softmax')),
} satisfies Record<string, LossFunction>;

const METRICS = {
  /** The fraction of correct classes; with one output, of predictions on the correct side of 0.5. */
  accuracy: (labels, p) => {
    if ((p.shape?.at(-1) ?? 1) === 1)
      return metrics.accuracy(cast(alike(labels, p), 'bool'), greater(p, 0.5));
    const isOneHot = labels.rank === p.rank && labels.shape?.at(-1) !== 1;
    const classes = isOneHot ? argMax(labels, -1) : cast(labels, 'int64');
    return metrics.accuracy(classes, argMax(p, -1));
  },
  meanSquaredError: (labels, p) => metrics.meanSquaredError(alike(labels, p), p),
} satisfies Record<string, MetricFunction>;

export type OptimizerName = keyof typeof OPTIMIZERS;
export type LossName = keyof typeof LOSSES;
export type MetricName = keyof typeof METRICS;

export function compiled(
  { optimizer, loss, metrics: given = {} }: CompileOptions,
  outputNames: readonly string[],
): Compiled {
  const names = Array.isArray(given) ? (given as readonly MetricName[]) : undefined;
  return {
    optimizer: optimizerOf(optimizer),
    outputs: lossesOf(loss, outputNames).map((own, i) => ({
      name: outputNames[i] as string,
      loss: typeof own === 'function' ? own : named(LOSSES, own, 'loss'),
      takesClasses: own === 'sparseCategoricalCrossentropy' || own === sparseSoftmaxCrossEntropy,
    })),
    metrics: names
      ? Object.fromEntries(names.map((name) => [name, named(METRICS, name, 'metric')]))
      : (given as Readonly<Record<string, MetricFunction>>),
  };
}

function optimizerOf(given: CompileOptions['optimizer']): Optimizer {
  if (given instanceof Optimizer) return given;
  if (typeof given === 'string') return named(OPTIMIZERS, given, 'optimizer')();
  return new CombinedOptimizer(given);
}

/** The loss of each output. */
function lossesOf(loss: CompileOptions['loss'], names: readonly string[]): readonly Loss[] {
  if (typeof loss !== 'object' || loss === null) return names.map(() => loss as Loss);
  const byName = Array.isArray(loss)
    ? Object.fromEntries((loss as readonly Loss[]).map((own, i) => [names[i] ?? `output ${i}`, own]))
    : (loss as Readonly<Record<string, Loss>>);
  const given = Object.keys(byName);
  if (given.length === names.length && names.every((name) => Object.hasOwn(byName, name)))
    return names.map((name) => byName[name] as Loss);
  throw invalid(
    `compile has losses for ${given.join(', ') || 'no output'}; the outputs are ${names.join(', ')}`,
    {
      hint: 'Give one loss for all outputs, or one for each.',
    },
  );
}

function named<T>(table: Readonly<Record<string, T>>, name: string, what: string): T {
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found !== undefined) return found;
  throw invalid(`There is no ${what} '${name}'`, { hint: `Known are ${Object.keys(table).join(', ')}.` });
}

/** Labels of the same rank as the predictions: a last axis of size 1 may be missing in either. */
function alike(labels: Output, predictions: Output): Output {
  if (labels.rank === null || predictions.rank === null || labels.rank === predictions.rank) return labels;
  return labels.rank < predictions.rank ? expandDims(labels, -1) : squeeze(labels, [-1]);
}

/** Keeps logarithms finite, as in Keras. */
const EPSILON = 1e-7;

/**
 * The logits of predictions: the input of their activation, which is exact. Without that activation the predictions are
 * probabilities, whose logarithms are logits too.
 */
function logitsOf(predictions: Output, activation: 'Softmax' | 'Sigmoid'): Output {
  const [logits] = predictions.op.inputs;
  if (predictions.op.type === activation && logits) return logits;
  const p = clipByValue(predictions, EPSILON, 1 - EPSILON);
  return activation === 'Softmax' ? log(p) : sub(log(p), log1p(neg(p)));
}
