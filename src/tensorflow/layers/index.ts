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
export * as ragged from './ragged.js';
export { RaggedTensor } from './ragged-tensor.js';
export * as regularizers from './regularizers.js';
export * as sparse from './sparse.js';
export { SparseTensor, type SparseTensorParts } from './sparse-tensor.js';
