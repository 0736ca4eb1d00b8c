/** Classification losses: cross entropies and hinge. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { add, cast, mul, neg, sub } from '../../ops/math.js';
import {
  relu,
  sigmoidCrossEntropyWithLogits,
  softmaxCrossEntropyWithLogits,
  sparseSoftmaxCrossEntropyWithLogits,
} from '../../ops/nn.js';
import { integerOutput } from '../integers.js';
import { lossOperands, lossScope } from './loss-scope.js';
import { checkSameShape, type LossOptions, toRank } from './weighted.js';

export interface SmoothedLossOptions extends LossOptions {
  /** How far labels are moved towards a uniform distribution, in [0, 1]. Default: 0. */
  readonly labelSmoothing?: number;
}

/** Cross entropy of one-hot (or probability) labels [batch, classes] and logits of the same shape. */
export const softmaxCrossEntropy = lossOperands(
  'onehotLabels',
  'logits',
  (onehotLabels, logits, options: SmoothedLossOptions): Output => {
    return lossScope('softmax_cross_entropy_loss', logits, options, (x) => {
      const y = cast(onehotLabels, x.dtype);
      checkSameShape('softmaxCrossEntropy', y, x);
      const smoothing = checkSmoothing(options.labelSmoothing);
      if (smoothing === 0) return softmaxCrossEntropyWithLogits(raw.stopGradient(y), x);
      const classes = x.shape?.at(-1);
      if (classes === undefined || classes === null) {
        throw invalid(`Label smoothing needs logits with a known number of classes; got ${x}`);
      }
      const smooth = add(mul(y, 1 - smoothing), smoothing / classes);
      return softmaxCrossEntropyWithLogits(raw.stopGradient(smooth), x);
    });
  },
);

/** Cross entropy of class numbers [batch] (or [batch, 1]) and logits [batch, classes]. */
export const sparseSoftmaxCrossEntropy = lossOperands(
  'labels',
  'logits',
  (labels, logits, options: LossOptions): Output => {
    const x = asOutput(logits);
    const fitted = { ...options, weights: fitWeights(options.weights, x) };
    return lossScope('sparse_softmax_cross_entropy_loss', x, fitted, () => {
      const given = integerOutput('Labels of sparseSoftmaxCrossEntropy', labels);
      const y = toRank(given, x.rank === null ? null : x.rank - 1);
      if (x.rank !== null && y.rank !== null && y.rank !== x.rank - 1) {
        throw invalid(
          `sparseSoftmaxCrossEntropy: labels ${given} must have one dimension less than logits ${x}`,
        );
      }
      return sparseSoftmaxCrossEntropyWithLogits(y, x);
    });
  },
);

/** Cross entropy of independent binary labels and logits of the same shape. */
export const sigmoidCrossEntropy = lossOperands(
  'labels',
  'logits',
  (labels, logits, options: SmoothedLossOptions): Output => {
    return lossScope('sigmoid_cross_entropy_loss', logits, options, (x) => {
      const y = cast(labels, x.dtype);
      checkSameShape('sigmoidCrossEntropy', y, x);
      const smoothing = checkSmoothing(options.labelSmoothing);
      const target = smoothing === 0 ? y : add(mul(y, 1 - smoothing), 0.5 * smoothing);
      return sigmoidCrossEntropyWithLogits(target, x);
    });
  },
);

/** max(0, 1 - y · logits) with labels 0 and 1 taken as -1 and 1. */
export const hinge = lossOperands('labels', 'logits', (labels, logits, options: LossOptions): Output => {
  return lossScope('hinge_loss', logits, options, (logit) => {
    const x = cast(logit, 'float32');
    const y = cast(labels, 'float32');
    checkSameShape('hinge', y, x);
    const signs = sub(mul(y, 2), 1);
    return relu(add(neg(mul(signs, x)), 1));
  });
});

/** Cross entropy of labels and probabilities; `epsilon` avoids the logarithm of 0; default: 1e-7. */
export const log = lossOperands(
  'labels',
  'predictions',
  (labels, predictions, options: LossOptions & { readonly epsilon?: number }): Output => {
    const { epsilon = 1e-7 } = options;
    return lossScope('log_loss', predictions, options, (prediction) => {
      const p = cast(prediction, 'float32');
      const y = cast(labels, 'float32');
      checkSameShape('log', y, p);
      const yes = mul(y, raw.log(add(p, epsilon)));
      const no = mul(sub(1, y), raw.log(add(sub(1, p), epsilon)));
      return sub(neg(yes), no);
    });
  },
);

/** Converts weights [batch, 1] to [batch] or back, to match the losses. */
function fitWeights(weights: Operand | undefined, logits: Output): Operand | undefined {
  if (weights === undefined || typeof weights === 'number') return weights;
  return toRank(asOutput(weights), logits.rank === null ? null : logits.rank - 1);
}

function checkSmoothing(smoothing = 0): number {
  if (smoothing >= 0 && smoothing <= 1) return smoothing;
  throw invalid(`labelSmoothing must be in [0, 1]; got ${smoothing}`);
}
