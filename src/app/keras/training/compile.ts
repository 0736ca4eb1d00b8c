/** How a model is trained: its optimizer, the losses of its outputs and its metrics. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output, OutputLike } from '../../../tensorflow/graph/operation.js';
import { sparseSoftmaxCrossEntropy } from '../../../tensorflow/layers/losses/classification.js';
import { CombinedOptimizer, type OptimizerEntry } from '../../../tensorflow/optimizers/combined.js';
import { Optimizer } from '../../../tensorflow/optimizers/optimizer.js';
import type { StreamingMetric } from '../../../training/train/evaluation/evaluate.js';
import { lookUp, requireNamed } from '../names.js';
import { LOSSES, type LossName } from './losses.js';
import { METRICS, type MetricName, type WeightedMetric } from './metrics.js';
import { OPTIMIZERS, type OptimizerName } from './optimizers.js';

export type { LossName } from './losses.js';
export type { MetricName } from './metrics.js';
export type { OptimizerName } from './optimizers.js';

/** The loss of a batch, a scalar; or those of its examples, [batch] or [batch, steps], of which the mean is used. */
export type LossFunction = (labels: Output, predictions: Output) => OutputLike;
/** A streaming metric, as `tf.metrics` returns it. */
export type MetricFunction = (labels: Output, predictions: Output) => StreamingMetric;

export type Loss = LossFunction | LossName;
/** Names of metrics, in snake case too, or functions such as `tf.metrics.auc` by the name of the value. */
export type CompiledMetrics =
  | readonly MetricName[]
  | Readonly<Record<string, MetricFunction | readonly MetricName[]>>;

export interface CompileOptions {
  /** An optimizer such as `tf.train.adam(0.01)`, or its name, for the defaults of Keras; or several, as for a job. */
  readonly optimizer: Optimizer | OptimizerName | readonly OptimizerEntry[];
  /**
   * A function such as `tf.losses.sparseSoftmaxCrossEntropy`, which takes logits, or the name of a loss. For a model of
   * several outputs: one for all, a list, or by the names of the outputs; the model trains on their sum.
   */
  readonly loss: Loss | readonly Loss[] | Readonly<Record<string, Loss>>;
  /** The factor of each output's loss, in a list or by the names of the outputs. Default: 1. */
  readonly lossWeights?: readonly number[] | Readonly<Record<string, number>>;
  /**
   * Names of metrics, or functions such as `tf.metrics.auc` by name; default: none, only the loss. For a model of several
   * outputs each has them all, as `OUTPUT_accuracy`; or lists of names by the names of the outputs.
   */
  readonly metrics?: CompiledMetrics;
  /** Names of metrics in which examples have their weights. Default: none. */
  readonly weightedMetrics?: readonly MetricName[];
}

/** An output of the model, in order. */
export interface CompiledOutput {
  readonly name: string;
  readonly loss: LossFunction;
  /** The factor of the loss in the sum. */
  readonly weight: number;
  /** Whether the labels are numbers of classes. */
  readonly takesClasses: boolean;
  readonly metrics: Readonly<Record<string, CompiledMetric>>;
}

export interface CompiledMetric {
  readonly make: WeightedMetric | MetricFunction;
  /** Whether examples have their weights in it. */
  readonly isWeighted: boolean;
}

export interface Compiled {
  readonly optimizer: Optimizer;
  readonly outputs: readonly CompiledOutput[];
  /** What `compile` was given, for `save`. */
  readonly options: CompileOptions;
}

export function compiled(options: CompileOptions, outputNames: readonly string[]): Compiled {
  const { optimizer, loss, lossWeights, metrics = {}, weightedMetrics = [] } = options;
  const losses = perOutput('losses', loss, outputNames);
  const weights = lossWeights ? perOutput('loss weights', lossWeights, outputNames) : [];
  const sparse = LOSSES.sparseCategoricalCrossentropy;
  return {
    optimizer: optimizerOf(optimizer),
    options,
    outputs: losses.map((own, i) => {
      const made = typeof own === 'function' ? own : (requireNamed(LOSSES, own, 'loss') as LossFunction);
      const name = outputNames[i] as string;
      const weight = weights[i] ?? 1;
      if (!Number.isFinite(weight))
        throw invalid(`The loss weight of ${name} must be a number; it is ${weight}`);
      return {
        name,
        loss: made,
        weight,
        takesClasses: made === sparse || own === sparseSoftmaxCrossEntropy,
        metrics: { ...metricsFor(metrics, name, outputNames), ...metricsByName(weightedMetrics, true) },
      };
    }),
  };
}

function optimizerOf(given: CompileOptions['optimizer']): Optimizer {
  if (given instanceof Optimizer) return given;
  if (typeof given === 'string') return requireNamed(OPTIMIZERS, given, 'optimizer')();
  return new CombinedOptimizer(given);
}

const metricsByName = (names: readonly string[], isWeighted: boolean): Record<string, CompiledMetric> =>
  Object.fromEntries(
    names.map((name) => [name, { make: requireNamed(METRICS, name, 'metric'), isWeighted }]),
  );

function metricsFor(
  given: CompiledMetrics,
  output: string,
  outputs: readonly string[],
): Record<string, CompiledMetric> {
  if (Array.isArray(given)) return metricsByName(given as readonly MetricName[], false);
  return Object.fromEntries(
    Object.entries(given as Exclude<CompiledMetrics, readonly MetricName[]>).flatMap(([key, one]) => {
      if (typeof one === 'function') return [[key, { make: one, isWeighted: false }]];
      if (!outputs.includes(key))
        throw invalid(`compile has metrics for '${key}'; the outputs are ${outputs.join(', ')}`);
      return key === output ? Object.entries(metricsByName(Array.isArray(one) ? one : [one], false)) : [];
    }),
  );
}

/** What is given for each output: one for all, a list, or by name. */
function perOutput<T>(
  what: string,
  given: T | readonly T[] | Readonly<Record<string, T>>,
  names: readonly string[],
): readonly T[] {
  if (typeof given !== 'object' || given === null) return names.map(() => given as T);
  const found = Array.isArray(given)
    ? Object.fromEntries((given as readonly T[]).map((own, i) => [names[i] ?? `output ${i}`, own]))
    : (given as Readonly<Record<string, T>>);
  const keys = Object.keys(found);
  if (keys.length === names.length && names.every((name) => Object.hasOwn(found, name)))
    return names.map((name) => found[name] as T);
  throw invalid(
    `compile has ${what} for ${keys.join(', ') || 'no output'}; the outputs are ${names.join(', ')}`,
    {
      hint: 'Give one for all outputs, or one for each.',
    },
  );
}

/** The names by which optimizers, losses and metrics are known. */
export const knownNames = {
  optimizer: (name: string) => lookUp(OPTIMIZERS, name) !== undefined,
  loss: (name: string) => lookUp(LOSSES, name) !== undefined,
  metric: (name: string) => lookUp(METRICS, name) !== undefined,
};
