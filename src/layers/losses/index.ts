/** `tf.losses`: TensorFlow 1's losses. Each adds its result to the collection of losses. */
export {
  hinge,
  log,
  type SmoothedLossOptions,
  sigmoidCrossEntropy,
  softmaxCrossEntropy,
  sparseSoftmaxCrossEntropy,
} from './classification.js';
export { absoluteDifference, type HuberOptions, huber, meanSquared } from './regression.js';
export {
  addLoss,
  getLosses,
  getRegularizationLoss,
  getRegularizationLosses,
  getTotalLoss,
  type TotalLossOptions,
} from './total.js';
export { computeWeightedLoss, type LossOptions, type Reduction } from './weighted.js';
