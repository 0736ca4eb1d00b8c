/** Words, or integers, by their hash: TensorFlow's categorical_column_with_hash_bucket. */
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { type Features, varLenFeature } from '../input/dataset/parse-example.js';
import {
  checkFeatureDtype,
  checkKey,
  checkPositiveOption,
  checkStringOrInteger,
  parsedType,
} from './check.js';
import { type CategoricalColumn, FeatureColumn, type IdsAndWeights } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';

export interface HashBucketOptions {
  /** The type of the feature, 'string' or one of integers; default: 'string'. */
  readonly dtype?: DType;
}

const OPTIONS: Names<HashBucketOptions> = { dtype: true };

/** Ids that are hashes; different words may share one. */
export function categoricalColumnWithHashBucket(
  key: string,
  hashBucketSize: number,
  options: OrNull<HashBucketOptions> = {},
): HashBucketColumn {
  return new HashBucketColumn(key, hashBucketSize, options);
}

export class HashBucketColumn extends FeatureColumn implements CategoricalColumn {
  readonly key: string;
  readonly numBuckets: number;
  readonly dtype: DType;

  /** @internal */
  constructor(key: string, hashBucketSize: number, given: OrNull<HashBucketOptions>) {
    super();
    checkKey('categoricalColumnWithHashBucket', key);
    const what = `The hash buckets of '${key}'`;
    checkPositiveOption(what, 'hashBucketSize', hashBucketSize);
    const { dtype = 'string' } = knownOptions(given, OPTIONS, what);
    checkStringOrInteger(what, dtype);
    this.key = key;
    this.numBuckets = hashBucketSize;
    this.dtype = dtype;
  }

  get name(): string {
    return this.key;
  }

  parseSpec(): Features {
    return { [this.key]: varLenFeature(parsedType(this.key, this.dtype)) };
  }

  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    return features.once(this, () => {
      const feature = features.sparse(this.key, this.name);
      checkFeatureDtype(this.key, this.dtype, feature.dtype);
      const text =
        feature.dtype === 'string' ? (feature.values as Output<'string'>) : raw.asString(feature.values);
      return {
        ids: feature.withValues(raw.stringToHashBucketFast(text, { numBuckets: this.numBuckets })),
      };
    });
  }
}
