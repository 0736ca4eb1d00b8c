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
export type { AffineOptions, LayerOptions, NormOptions } from './weights.js';
