/** Layers, lookups, losses, metrics, regularizers and guards against NaN. */
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
export * as layers from './layers.js';
export {
  type Activation,
  averagePooling2d,
  type BatchNormOptions,
  batchNorm,
  type Conv2dOptions,
  conv2d,
  type DenseOptions,
  type DropoutOptions,
  dense,
  dropout,
  type EmbeddingOptions,
  embedding,
  flatten,
  type LayerNormOptions,
  type LayerOptions,
  layerNorm,
  maxPooling2d,
  type PoolingOptions,
  type Training,
} from './layers.js';
export * as losses from './losses/index.js';
export * as metrics from './metrics/index.js';
export * as regularizers from './regularizers.js';
export { SparseTensor, type SparseTensorParts } from './sparse-tensor.js';
