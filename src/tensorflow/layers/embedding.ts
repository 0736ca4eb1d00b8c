/** The embedding layer. For existing tables and bags of ids use the lookup functions. */
import type { OrNull } from '../../base/errors/null-options.js';
import type { Names } from '../../base/errors/option-names.js';
import type { Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import type { DType } from '../tensor/dtype.js';
import type { TensorLike } from '../tensor/tensor.js';
import { type Initializer, randomUniformInitializer } from '../variables/initializers.js';
import { type EmbeddingLookupOptions, embeddingLookup } from './embedding-lookup.js';
import { integerOutput } from './integers.js';
import { layerScope } from './layer-scope.js';
import type { Regularizer } from './regularizers.js';
import { checkCount, LAYER_NAMES, type LayerOptions, layerOptions, weight } from './weights.js';

export interface EmbeddingOptions extends LayerOptions, Pick<EmbeddingLookupOptions, 'maxNorm' | 'unique'> {
  /** The dtype of the table; default: 'float32'. */
  readonly dtype?: DType;
  /** The initializer of the table, or its initial value; default: uniform in [-0.05, 0.05). */
  readonly embeddingsInitializer?: Initializer | TensorLike;
  /** The penalty on the table; default: none. */
  readonly embeddingsRegularizer?: Regularizer;
}

export const EMBEDDING_NAMES: Names<EmbeddingOptions> = {
  ...LAYER_NAMES,
  dtype: true,
  embeddingsInitializer: true,
  embeddingsRegularizer: true,
  maxNorm: true,
  unique: true,
};

/** [ids…] → [ids…, size]. Variable `embedding/embeddings` [rows, size], partitioned by the scope's partitioner. */
export function embedding(
  ids: Operand,
  rows: number,
  size: number,
  given: OrNull<EmbeddingOptions> = {},
): Output {
  const options = layerOptions('embedding', EMBEDDING_NAMES, given);
  checkCount('embedding', 'the number of rows', rows);
  checkCount('embedding', 'the size of a row', size);
  const wanted = integerOutput('Ids', ids);
  return layerScope(wanted, 'embedding', options, () => {
    const table = weight('embeddings', {
      shape: [rows, size],
      dtype: options.dtype ?? 'float32',
      trainable: options.trainable,
      initializer: options.embeddingsInitializer ?? randomUniformInitializer(),
      regularizer: options.embeddingsRegularizer,
    });
    return embeddingLookup(table, wanted, { maxNorm: options.maxNorm, unique: options.unique });
  });
}
