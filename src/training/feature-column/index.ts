/** `tf.featureColumn`: TensorFlow 1's feature columns, and the models that take them. */
export { BucketizedColumn, bucketizedColumn } from './bucketized.js';
export { type ColumnsOptions, makeParseExampleSpec } from './column-list.js';
export { CrossedColumn, type CrossedColumnOptions, crossedColumn } from './crossed.js';
export {
  EmbeddingColumn,
  type EmbeddingColumnOptions,
  embeddingColumn,
  type SharedEmbeddingOptions,
  sharedEmbeddingColumns,
} from './embedding.js';
export { type CategoricalColumn, type DenseColumn, FeatureColumn } from './feature-column.js';
export type { FeatureValues } from './feature-tensors.js';
export { categoricalColumnWithHashBucket, HashBucketColumn, type HashBucketOptions } from './hash-bucket.js';
export { categoricalColumnWithIdentity, IdentityColumn, type IdentityOptions } from './identity.js';
export { IndicatorColumn, indicatorColumn } from './indicator.js';
export { type InputLayerOptions, inputLayer } from './input-layer.js';
export { type LinearModelOptions, linearModel } from './linear-model.js';
export { type Numbers, NumericColumn, type NumericColumnOptions, numericColumn } from './numeric.js';
export {
  categoricalColumnWithVocabularyFile,
  categoricalColumnWithVocabularyList,
  VocabularyColumn,
  type VocabularyFileOptions,
  type VocabularyListOptions,
} from './vocabulary.js';
export { WeightedColumn, type WeightedColumnOptions, weightedCategoricalColumn } from './weighted.js';
