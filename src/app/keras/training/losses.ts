/** Losses by the names of Keras: the loss of each example, or of each of its steps. */

import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { checkSameShape } from '../../../tensorflow/layers/losses/weighted.js';
import { expandDims, squeeze } from '../../../tensorflow/ops/arrays.js';
import { cond } from '../../../tensorflow/ops/control-flow.js';
import {
  abs,
  add,
  all,
  cast,
  clipByValue,
  div,
  equal,
  lessEqual,
  log,
  log1p,
  logicalOr,
  max,
  maximum,
  mean,
  mul,
  neg,
  pow,
  square,
  sub,
  sum,
  where,
} from '../../../tensorflow/ops/math.js';
import {
  l2Normalize,
  sigmoidCrossEntropyWithLogits,
  softmaxCrossEntropyWithLogits,
  softplus,
  sparseSoftmaxCrossEntropyWithLogits,
} from '../../../tensorflow/ops/nn.js';
import type { Spelled } from '../names.js';

/** The losses of examples, [batch] or [batch, steps]. */
export type ElementLoss = (labels: Output, predictions: Output) => Output;

/** Keeps logarithms and divisions finite, as in Keras. */
const EPSILON = 1e-7;
const last = { axis: -1 };

const regression =
  (each: (y: Output, p: Output) => Output): ElementLoss =>
  (labels, p) => {
    return mean(each(matching(labels, p), p), last);
  };

const squared: ElementLoss = regression((y, p) => square(sub(p, y)));
const absolute: ElementLoss = regression((y, p) => abs(sub(p, y)));
const percentage: ElementLoss = regression((y, p) => mul(abs(div(sub(y, p), maximum(abs(y), EPSILON))), 100));
const logarithmic: ElementLoss = regression((y, p) =>
  square(sub(log(add(maximum(p, EPSILON), 1)), log(add(maximum(y, EPSILON), 1)))),
);
/** Labels 0 and 1, predictions between. */
const binary: ElementLoss = (labels, p) =>
  mean(sigmoidCrossEntropyWithLogits(matching(labels, p), logitsOf(p, 'Sigmoid')), last);
/** Labels as one-hot rows, predictions as probabilities of the classes. */
const categorical: ElementLoss = (labels, p) =>
  softmaxCrossEntropyWithLogits(matching(labels, p), logitsOf(p, 'Softmax'));
const divergence: ElementLoss = (labels, p) => {
  const [y, q] = [clipByValue(matching(labels, p), EPSILON, 1), clipByValue(p, EPSILON, 1)];
  return sum(mul(y, log(div(y, q))), last);
};

export const LOSSES = {
  meanSquaredError: squared,
  mse: squared,
  meanAbsoluteError: absolute,
  mae: absolute,
  meanAbsolutePercentageError: percentage,
  mape: percentage,
  meanSquaredLogarithmicError: logarithmic,
  msle: logarithmic,
  huber: regression((y, p) => {
    const size = abs(sub(p, y));
    return where(lessEqual(size, 1), mul(square(size), 0.5), sub(size, 0.5));
  }),
  logCosh: regression((y, p) => {
    const error = sub(p, y);
    return sub(add(error, softplus(mul(error, -2))), Math.LN2);
  }),
  binaryCrossentropy: binary,
  bce: binary,
  /** That of hard examples counts more. */
  binaryFocalCrossentropy: (labels, p) => {
    const y = matching(labels, p);
    const each = sigmoidCrossEntropyWithLogits(y, logitsOf(p, 'Sigmoid'));
    const q = clipByValue(p, EPSILON, 1 - EPSILON);
    const correct = add(mul(y, q), mul(sub(1, y), sub(1, q)));
    return mean(mul(pow(sub(1, correct), 2), each), last);
  },
  categoricalCrossentropy: categorical,
  /** Labels as class numbers, predictions as probabilities of the classes. */
  sparseCategoricalCrossentropy: (labels, p) =>
    sparseSoftmaxCrossEntropyWithLogits(classNumbers(labels, p), logitsOf(p, 'Softmax')),
  klDivergence: divergence,
  kld: divergence,
  poisson: regression((y, p) => sub(p, mul(y, log(add(p, EPSILON))))),
  hinge: (labels, p) => mean(maximum(sub(1, mul(signs(labels, p), p)), 0), last),
  squaredHinge: (labels, p) => mean(square(maximum(sub(1, mul(signs(labels, p), p)), 0)), last),
  categoricalHinge: (labels, p) => {
    const y = matching(labels, p);
    return maximum(add(sub(max(mul(sub(1, y), p), last), sum(mul(y, p), last)), 1), 0);
  },
  /** -1 for the same direction. */
  cosineSimilarity: (labels, p) => neg(cosine(labels, p)),
} satisfies Record<string, ElementLoss>;

export type LossName = Spelled<keyof typeof LOSSES>;

export const cosine: ElementLoss = (labels, p) => {
  const y = matching(labels, p);
  return sum(mul(l2Normalize(y, -1), l2Normalize(p, -1)), last);
};

/** Labels 0 and 1 as -1 and 1; others are kept, for all if any is neither. */
function signs(labels: Output, p: Output): Output {
  const y = matching(labels, p);
  const isBinary = all(logicalOr(equal(y, 0), equal(y, 1)));
  return (
    cond(
      isBinary,
      () => sub(mul(y, 2), 1),
      () => y,
    )[0] as Output
  ).setShape(y.shape); // prettier-ignore
}

/** Labels of the same rank as the predictions: a last axis of size 1 may be missing in either. */
export function alike(labels: Output, predictions: Output): Output {
  if (labels.rank === null || predictions.rank === null || labels.rank === predictions.rank) return labels;
  return labels.rank < predictions.rank ? expandDims(labels, -1) : squeeze(labels, [-1]);
}

/** Labels of the shape of the predictions, which would be broadcast otherwise. */
function matching(labels: Output, predictions: Output): Output {
  const y = cast(alike(labels, predictions), predictions.dtype);
  checkSameShape('The loss', y, predictions);
  return y;
}

/** Numbers of classes: one axis less than the predictions. */
export const classNumbers = (labels: Output, predictions: Output): Output => {
  const y = cast(labels, 'int64');
  if (y.rank === null || y.rank !== predictions.rank) return y;
  const width = y.shape?.at(-1) ?? 1;
  if (width !== 1)
    throw invalid(
      `The labels of this loss are numbers of classes, but they have shape [${y.shape?.map((n) => n ?? '?').join(', ')}]`,
      {
        hint: "Labels with one number for each class, such as one-hot vectors, are those of 'categoricalCrossentropy'.",
      },
    );
  return squeeze(y, [-1]);
};

/**
 * The logits of predictions: the input of their activation, which is exact. Without that activation the predictions are
 * probabilities, whose logarithms are logits too.
 */
function logitsOf(predictions: Output, activation: 'Softmax' | 'Sigmoid'): Output {
  const [logits] = predictions.op.inputs;
  // Softmax of more than two axes is between two reshapes; its logits have another shape.
  if (predictions.op.type === activation && logits && logits.rank === predictions.rank) return logits;
  const p = clipByValue(predictions, EPSILON, 1 - EPSILON);
  return activation === 'Softmax' ? log(p) : sub(log(p), log1p(neg(p)));
}
