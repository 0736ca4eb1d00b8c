/**
 * `tf.losses`: TensorFlow 1's losses. Each adds its result to the collection of losses. TensorFlow's longer names
 * (`meanSquaredError`) are aliases.
 */
export {
  hinge,
  hinge as hingeLoss,
  log,
  log as logLoss,
  type SmoothedLossOptions,
  sigmoidCrossEntropy,
  softmaxCrossEntropy,
  sparseSoftmaxCrossEntropy,
} from './classification.js';
export {
  absoluteDifference,
  type HuberOptions,
  huber,
  huber as huberLoss,
  meanSquared,
  meanSquared as meanSquaredError,
} from './regression.js';
export {
  addLoss,
  getLosses,
  getRegularizationLoss,
  getRegularizationLosses,
  getTotalLoss,
  type TotalLossOptions,
} from './total.js';
export { computeWeightedLoss, type LossOptions, type Reduction } from './weighted.js';
