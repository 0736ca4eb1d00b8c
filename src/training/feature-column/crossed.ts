/** Combinations of features by their hash, such as a city with a day of the week: TensorFlow's crossed_column. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { crossHashed } from '../../tensorflow/layers/sparse/sparse.js';
import type { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import { isFloating } from '../../tensorflow/tensor/dtype.js';
import { type Features, varLenFeature } from '../input/dataset/parse-example.js';
import { checkCategorical, checkPositiveOption } from './check.js';
import { type CategoricalColumn, FeatureColumn, type IdsAndWeights } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';
import { HashBucketColumn } from './hash-bucket.js';

export interface CrossedColumnOptions {
  /** The key of the hash, an integer; default: TensorFlow's. */
  readonly hashKey?: number | bigint;
}

const OPTIONS: Names<CrossedColumnOptions> = { hashKey: true };

/** Keys of features with words, and categorical columns. */
export function crossedColumn(
  keys: readonly (string | CategoricalColumn)[],
  hashBucketSize: number,
  options: OrNull<CrossedColumnOptions> = {},
): CrossedColumn {
  return new CrossedColumn(keys, hashBucketSize, options);
}

export class CrossedColumn extends FeatureColumn implements CategoricalColumn {
  readonly keys: readonly (string | CategoricalColumn)[];
  readonly numBuckets: number;
  readonly hashKey: number | bigint | undefined;

  /** @internal */
  constructor(
    keys: readonly (string | CategoricalColumn)[],
    hashBucketSize: number,
    given: OrNull<CrossedColumnOptions>,
  ) {
    super();
    if (!Array.isArray(keys) || keys.length < 2)
      throw invalid('crossedColumn needs a list of at least two keys or columns');
    for (const key of keys as CrossedColumn['keys']) {
      if (typeof key === 'string') continue;
      checkCategorical('crossedColumn', key);
      if (key instanceof HashBucketColumn)
        throw invalid(
          `crossedColumn does not take the hash buckets of '${key.key}': two hashes collide more often`,
          {
            hint: `Use the key '${key.key}' itself.`,
          },
        );
    }
    const { hashKey } = knownOptions(given, OPTIONS, 'crossedColumn');
    if (hashKey !== undefined && typeof hashKey !== 'bigint' && !Number.isSafeInteger(hashKey))
      throw invalid(`crossedColumn: hashKey must be an integer, it is ${hashKey}`);
    this.keys = [...keys];
    checkPositiveOption(`The cross '${this.name}'`, 'hashBucketSize', hashBucketSize);
    this.numBuckets = hashBucketSize;
    this.hashKey = hashKey;
  }

  get name(): string {
    return this.#leaves
      .map((key) => (typeof key === 'string' ? key : key.name))
      .sort()
      .join('_X_');
  }

  /** The keys, with those of other crosses in their places. */
  get #leaves(): readonly (string | CategoricalColumn)[] {
    return this.keys.flatMap((key) => (key instanceof CrossedColumn ? key.#leaves : [key]));
  }

  parseSpec(): Features {
    return Object.assign(
      {},
      ...this.keys.map((key) =>
        typeof key === 'string' ? { [key]: varLenFeature('string') } : key.parseSpec(),
      ),
    ) as Features;
  }

  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    return features.once(this, () => {
      const inputs = this.#leaves.map((key) => this.#input(key, features));
      return { ids: crossHashed(inputs, { numBuckets: this.numBuckets, hashKey: this.hashKey }) };
    });
  }

  #input(key: string | CategoricalColumn, features: FeatureTensors): Output | SparseTensor {
    if (typeof key !== 'string') {
      const { ids, weights } = key.idsAndWeights(features);
      if (weights === undefined) return ids;
      throw invalid(
        `The cross '${this.name}' has the weighted column '${key.name}'; weights cannot be crossed`,
      );
    }
    const feature = features.get(key, this.name);
    if (!isFloating(feature.dtype)) return feature;
    throw invalid(`The cross '${this.name}' needs words or integers; feature '${key}' is ${feature.dtype}`, {
      hint: 'Cross its buckets instead: tf.featureColumn.bucketizedColumn.',
    });
  }
}
