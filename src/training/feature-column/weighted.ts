/** Ids with a weight each, from another feature: TensorFlow's weighted_categorical_column. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { type DType, isFloating } from '../../tensorflow/tensor/dtype.js';
import { type Features, varLenFeature } from '../input/dataset/parse-example.js';
import { checkCategorical, checkKey, checkNumber, parsedType } from './check.js';
import { type CategoricalColumn, FeatureColumn, type IdsAndWeights } from './feature-column.js';
import { type FeatureTensors, toSparse } from './feature-tensors.js';

export interface WeightedColumnOptions {
  /** The type of the weights; default: 'float32'. */
  readonly dtype?: DType;
}

const OPTIONS: Names<WeightedColumnOptions> = { dtype: true };

/** `weightFeatureKey` names a feature with as many weights as the other has ids. */
export function weightedCategoricalColumn(
  categoricalColumn: CategoricalColumn,
  weightFeatureKey: string,
  options: OrNull<WeightedColumnOptions> = {},
): WeightedColumn {
  return new WeightedColumn(categoricalColumn, weightFeatureKey, options);
}

export class WeightedColumn extends FeatureColumn implements CategoricalColumn {
  readonly categoricalColumn: CategoricalColumn;
  readonly weightFeatureKey: string;
  readonly dtype: DType;

  /** @internal */
  constructor(column: CategoricalColumn, weightFeatureKey: string, given: OrNull<WeightedColumnOptions>) {
    super();
    checkCategorical('weightedCategoricalColumn', column);
    checkKey('weightedCategoricalColumn', weightFeatureKey);
    const what = `The weights '${weightFeatureKey}'`;
    const { dtype = 'float32' } = knownOptions(given, OPTIONS, what);
    checkNumber(what, dtype);
    this.categoricalColumn = column;
    this.weightFeatureKey = weightFeatureKey;
    this.dtype = dtype;
  }

  get name(): string {
    return `${this.categoricalColumn.name}_weighted_by_${this.weightFeatureKey}`;
  }

  get numBuckets(): number {
    return this.categoricalColumn.numBuckets;
  }

  parseSpec(): Features {
    const key = this.weightFeatureKey;
    const spec = this.categoricalColumn.parseSpec();
    if (Object.hasOwn(spec, key))
      throw invalid(
        `The weights '${key}' are a feature of the column '${this.categoricalColumn.name}' already`,
      );
    return { ...spec, [key]: varLenFeature(parsedType(key, this.dtype)) };
  }

  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    return features.once(this, () => {
      const { ids } = this.categoricalColumn.idsAndWeights(features);
      const given = features.get(this.weightFeatureKey, this.name);
      if (given.dtype !== this.dtype)
        throw invalid(
          `The weights '${this.weightFeatureKey}' are ${given.dtype}; the dtype of the column is ${this.dtype}`,
        );
      const weights = given instanceof SparseTensor ? given : toSparse(given, 0);
      if (isFloating(weights.dtype)) return { ids, weights };
      return { ids, weights: weights.withValues(raw.cast(weights.values, { dstT: 'float32' })) };
    });
  }
}
