/** Integers that are ids already: TensorFlow's categorical_column_with_identity. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { isInteger } from '../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { type Features, varLenFeature } from '../input/dataset/parse-example.js';
import { checkKey, checkPositiveOption } from './check.js';
import { type CategoricalColumn, FeatureColumn, type IdsAndWeights } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';

export interface IdentityOptions {
  /** The id to use for integers outside [0, numBuckets). Default: none; negative ones are ignored, others are errors. */
  readonly defaultValue?: number;
}

const OPTIONS: Names<IdentityOptions> = { defaultValue: true };

/** Ids that are the integers of the feature. */
export function categoricalColumnWithIdentity(
  key: string,
  numBuckets: number,
  options: OrNull<IdentityOptions> = {},
): IdentityColumn {
  return new IdentityColumn(key, numBuckets, options);
}

export class IdentityColumn extends FeatureColumn implements CategoricalColumn {
  readonly key: string;
  readonly numBuckets: number;
  readonly defaultValue: number | undefined;

  /** @internal */
  constructor(key: string, numBuckets: number, given: OrNull<IdentityOptions>) {
    super();
    checkKey('categoricalColumnWithIdentity', key);
    const what = `The ids of '${key}'`;
    checkPositiveOption(what, 'numBuckets', numBuckets);
    const { defaultValue } = knownOptions(given, OPTIONS, what);
    const isInRange =
      Number.isSafeInteger(defaultValue) && Number(defaultValue) >= 0 && Number(defaultValue) < numBuckets;
    if (defaultValue !== undefined && !isInRange)
      throw invalid(`${what}: defaultValue must be an integer in [0, ${numBuckets}), it is ${defaultValue}`);
    this.key = key;
    this.numBuckets = numBuckets;
    this.defaultValue = defaultValue;
  }

  get name(): string {
    return this.key;
  }

  parseSpec(): Features {
    return { [this.key]: varLenFeature('int64') };
  }

  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    return features.once(this, () => {
      const feature = features.sparse(this.key, this.name);
      if (!isInteger(feature.dtype))
        throw invalid(`The ids of '${this.key}' must be integers; the feature is ${feature.dtype}`, {
          hint: 'Words become ids through a vocabulary or a hash: categoricalColumnWithVocabularyList, …WithHashBucket.',
        });
      const values = raw.cast(feature.values, { dstT: 'int64' });
      if (this.defaultValue === undefined) return { ids: feature.withValues(values) };
      const int64 = (value: number) => Tensor.of(BigInt(value), { dtype: 'int64' });
      const isOutside = raw.logicalOr(
        raw.less(values, int64(0)),
        raw.greaterEqual(values, int64(this.numBuckets)),
      );
      return { ids: feature.withValues(raw.selectV2(isOutside, int64(this.defaultValue), values)) };
    });
  }
}
