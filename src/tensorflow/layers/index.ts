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
export * as losses from './losses/index.js';
export * as metrics from './metrics/index.js';
export * as regularizers from './regularizers.js';
export * as ragged from './sparse/ragged.js';
export { RaggedTensor } from './sparse/ragged-tensor.js';
export * as sparse from './sparse/sparse.js';
export { SparseTensor, type SparseTensorParts } from './sparse/sparse-tensor.js';
