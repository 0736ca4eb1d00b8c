/** `tf.keras.layers`: layers as elements of a model, with the options of `tf.layers`. */
export { Layer } from '../layer.js';
export { type AttentionLayerOptions, multiHeadAttention } from './attention.js';
export {
  conv1d,
  conv1dTranspose,
  conv2d,
  conv2dTranspose,
  conv3d,
  conv3dTranspose,
  cropping1d,
  cropping2d,
  cropping3d,
  depthwiseConv1d,
  depthwiseConv2d,
  separableConv1d,
  separableConv2d,
  type UpSamplingOptions,
  upSampling1d,
  upSampling2d,
  upSampling3d,
  zeroPadding1d,
  zeroPadding2d,
  zeroPadding3d,
} from './convolution.js';
export {
  activation,
  batchNorm,
  batchNorm as batchNormalization,
  dense,
  dropout,
  type EmbeddingLayerOptions,
  embedding,
  flatten,
  lambda,
  layerNorm,
  layerNorm as layerNormalization,
  masking,
  permute,
  repeatVector,
  reshape,
} from './core.js';
export type { NamedLayer, Options } from './define.js';
export { add, average, concatenate, dot, maximum, minimum, multiply, subtract } from './merge.js';
export type { InitializerName, RegularizerName } from './named-values.js';
export {
  averagePooling1d,
  averagePooling2d,
  averagePooling3d,
  type GlobalPoolingOptions,
  globalAveragePooling1d,
  globalAveragePooling2d,
  globalAveragePooling3d,
  globalMaxPooling1d,
  globalMaxPooling2d,
  globalMaxPooling3d,
  maxPooling1d,
  maxPooling2d,
  maxPooling3d,
  type PoolingLayerOptions,
} from './pooling.js';
export {
  type BidirectionalOptions,
  bidirectional,
  gru,
  lstm,
  type MergeMode,
  type RecurrentLayerOptions,
  simpleRnn,
  timeDistributed,
} from './recurrent.js';
