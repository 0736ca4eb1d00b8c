/** `tf.layers`: layer functions that create their variables in the current variable scope, as in TensorFlow 1. */

export type { Activation, ActivationName } from './activations.js';
export { type BatchNormOptions, batchNorm, batchNorm as batchNormalization } from './batch-norm.js';
export { type Conv2dOptions, conv2d } from './convolution.js';
export { type DenseOptions, dense } from './dense.js';
export { type DropoutOptions, dropout, type TrainingFlag } from './dropout.js';
export { type EmbeddingOptions, embedding } from './embedding.js';
export { type LayerNormOptions, layerNorm } from './layer-norm.js';
export type { LayerScopeOptions } from './layer-scope.js';
export { averagePooling2d, flatten, maxPooling2d, type PoolingOptions } from './pooling.js';
export { type Conv1dOptions, type Conv3dOptions, conv1d, conv3d } from './spatial/convolution.js';
export { averagePooling1d, averagePooling3d, maxPooling1d, maxPooling3d } from './spatial/pooling.js';
export {
  type SeparableConv1dOptions,
  type SeparableConv2dOptions,
  separableConv1d,
  separableConv2d,
} from './spatial/separable.js';
export {
  type Conv2dTransposeOptions,
  type Conv3dTransposeOptions,
  conv2dTranspose,
  conv3dTranspose,
} from './spatial/transposed.js';
export type { AffineOptions, LayerOptions, NormOptions } from './weights.js';
