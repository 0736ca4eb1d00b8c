/** `tf.layers` with what belongs to it: layers, lookups, regularizers, guards; `losses` and `metrics` by name. */
export { type BatchNormOptions, batchNorm } from './batch-norm.js';
export { type Conv2dOptions, conv2d } from './convolution.js';
export { type DenseOptions, dense } from './dense.js';
export { type DropoutOptions, dropout, type Training } from './dropout.js';
export { type EmbeddingOptions, embedding } from './embedding.js';
export {
  type EmbeddingLookupOptions,
  type EmbeddingTable,
  embeddingLookup,
  type PartitionStrategy,
} from './embedding-lookup.js';
export {
  type Combiner,
  type EmbeddingLookupSparseOptions,
  embeddingLookupSparse,
  type SafeEmbeddingLookupSparseOptions,
  safeEmbeddingLookupSparse,
} from './embedding-sparse.js';
export {
  type AssertFiniteOptions,
  assertFinite,
  type CheckFiniteOptions,
  checkFinite,
  checkNumerics,
} from './finite.js';
export { type LayerNormOptions, layerNorm } from './layer-norm.js';
export * as losses from './losses/index.js';
export * as metrics from './metrics/index.js';
export { averagePooling2d, flatten, maxPooling2d, type PoolingOptions } from './pooling.js';
export * as regularizers from './regularizers.js';
export { SparseTensor, type SparseTensorParts } from './sparse-tensor.js';
export type { Activation, LayerOptions } from './weights.js';
