/** Metrics by the names of Keras. */

import type { Output } from '../../../tensorflow/graph/operation.js';
import * as metrics from '../../../tensorflow/layers/metrics/index.js';
import type { Metric } from '../../../tensorflow/layers/metrics/metric.js';
import { identity, reshape } from '../../../tensorflow/ops/arrays.js';
import { argMax, cast, equal, greater, sqrt } from '../../../tensorflow/ops/math.js';
import { inTopK } from '../../../tensorflow/ops/nn.js';
import type { Spelled } from '../names.js';
import { alike, classNumbers, cosine, type ElementLoss, LOSSES } from './losses.js';

/** A metric; the weights are those of examples or of their steps. */
export type WeightedMetric = (labels: Output, predictions: Output, weights: Output | undefined) => Metric;

const meanOf =
  (each: ElementLoss): WeightedMetric =>
  (labels, p, weights) =>
    metrics.mean(each(labels, p), weights ? { weights } : {});

const fraction = (each: (labels: Output, p: Output) => Output): WeightedMetric =>
  meanOf((labels, p) => cast(each(labels, p), 'float32'));

const K = 5;
const sparse = fraction((y, p) => equal(classNumbers(y, p), argMax(p, -1)));
const categorical = fraction((y, p) => equal(argMax(y, -1), argMax(p, -1)));
const binary = meanOf((labels, p) => {
  const y = cast(alike(labels, p), 'bool');
  return cast(equal(y, greater(p, 0.5)), 'float32').mean(-1);
});

const isOneHot = (y: Output, p: Output): boolean => y.rank === p.rank && y.shape?.at(-1) !== 1;

/** The fraction of correct classes; with one output, of predictions on the correct side of 0.5. */
const accuracy: WeightedMetric = (y, p, weights) => {
  if ((p.shape?.at(-1) ?? 1) === 1) return binary(y, p, weights);
  return (isOneHot(y, p) ? categorical : sparse)(y, p, weights);
};

/** The classes of all rows, and their predictions as a matrix. */
const topK = fraction((labels, p) => {
  const classes = isOneHot(labels, p) ? argMax(labels, -1) : classNumbers(labels, p);
  const size = p.shape?.at(-1) ?? -1;
  const found = inTopK(reshape(p, [-1, size]), reshape(classes, [-1]), K);
  return p.rank === 2 ? found : reshape(found, [-1, p.shape?.[1] ?? -1]);
});

/** Labels and decisions on each side of 0.5, for metrics of positives. */
const decided =
  (metric: typeof metrics.precision): WeightedMetric =>
  (labels, p, weights) =>
    metric(cast(alike(labels, p), 'bool'), greater(p, 0.5), weights ? { weights } : {});

export const METRICS = {
  accuracy,
  acc: accuracy,
  binaryAccuracy: binary,
  categoricalAccuracy: categorical,
  sparseCategoricalAccuracy: sparse,
  /** Whether the class is among the five most probable. */
  topK,
  topKCategoricalAccuracy: topK,
  sparseTopKCategoricalAccuracy: topK,
  /** The area under the ROC curve. */
  auc: (labels, p, weights) => metrics.auc(cast(alike(labels, p), 'bool'), p, weights ? { weights } : {}),
  precision: decided(metrics.precision),
  recall: decided(metrics.recall),
  rootMeanSquaredError: (labels, p, weights) => {
    const made = meanOf(LOSSES.meanSquaredError)(labels, p, weights);
    return { ...made, value: sqrt(made.value), updateOp: identity(sqrt(made.updateOp)) };
  },
  ...(Object.fromEntries(Object.entries(LOSSES).map(([name, each]) => [name, meanOf(each)])) as Record<
    keyof typeof LOSSES,
    WeightedMetric
  >),
  logCoshError: meanOf(LOSSES.logCosh),
  /** 1 for the same direction. */
  cosineSimilarity: meanOf(cosine),
} satisfies Record<string, WeightedMetric>;

export type MetricName = Spelled<keyof typeof METRICS>;
