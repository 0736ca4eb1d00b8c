/** Numbers divided into buckets, [-∞, b₀), [b₀, b₁), …: dense as one-hot vectors, categorical as bucket numbers. */
import { invalid } from '../../base/errors/errors.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Features } from '../input/dataset/parse-example.js';
import { describeGiven } from './check.js';
import {
  type CategoricalColumn,
  type DenseColumn,
  FeatureColumn,
  type IdsAndWeights,
} from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';
import { NumericColumn } from './numeric.js';

/** The buckets of a numeric column; `boundaries` are sorted. */
export function bucketizedColumn(
  sourceColumn: NumericColumn,
  boundaries: readonly number[],
): BucketizedColumn {
  return new BucketizedColumn(sourceColumn, boundaries);
}

export class BucketizedColumn extends FeatureColumn implements DenseColumn, CategoricalColumn {
  readonly sourceColumn: NumericColumn;
  readonly boundaries: readonly number[];

  /** @internal */
  constructor(source: NumericColumn, boundaries: readonly number[]) {
    super();
    if (!(source instanceof NumericColumn))
      throw invalid(`bucketizedColumn needs a numeric column; ${describeGiven(source)} is none`, {
        hint: 'Make it with tf.featureColumn.numericColumn.',
      });
    const what = `The buckets of '${source.key}'`;
    if (source.variableShape.length > 1)
      throw invalid(`${what} need a column with one axis; its shape is [${source.variableShape.join(', ')}]`);
    if (!Array.isArray(boundaries) || boundaries.length === 0)
      throw invalid(`${what} need at least one boundary`, { hint: 'For example [18, 25, 65].' });
    const unsorted = boundaries.findIndex((value, i) => i > 0 && !(boundaries[i - 1] < value));
    if (unsorted > 0)
      throw invalid(`${what} have boundaries that are not sorted: [${boundaries.join(', ')}]`, {
        hint: `${boundaries[unsorted]} follows ${boundaries[unsorted - 1]}; each boundary must be above the one before.`,
      });
    if (!boundaries.every((value) => typeof value === 'number' && !Number.isNaN(value)))
      throw invalid(`${what} have boundaries that are not numbers: [${boundaries.join(', ')}]`);
    this.sourceColumn = source;
    this.boundaries = [...boundaries];
  }

  get name(): string {
    return `${this.sourceColumn.name}_bucketized`;
  }

  get variableShape(): readonly number[] {
    return [...this.sourceColumn.variableShape, this.boundaries.length + 1];
  }

  get numBuckets(): number {
    return (this.boundaries.length + 1) * this.#width;
  }

  get #width(): number {
    return this.sourceColumn.variableShape[0] ?? 1;
  }

  parseSpec(): Features {
    return this.sourceColumn.parseSpec();
  }

  /** @internal */
  denseTensor(features: FeatureTensors): Output {
    const depth = Tensor.of(this.boundaries.length + 1, { dtype: 'int32' });
    const [on, off] = [1, 0].map((value) => Tensor.of(value, { dtype: 'float32' })) as [Tensor, Tensor];
    return raw.oneHot(this.#buckets(features), depth, on, off);
  }

  /** Each element of an example has buckets of its own. @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    const buckets = raw.cast(this.#buckets(features), { dstT: 'int64' });
    const width = Tensor.of(Int32Array.of(-1, this.#width));
    const matrix = raw.reshape(buckets, width);
    const offsets = BigInt64Array.from({ length: this.#width }, (_, i) =>
      BigInt(i * (this.boundaries.length + 1)),
    );
    const ids = raw.addV2(matrix, Tensor.of(offsets));
    // Every element has an id: the indices are those of all elements.
    const everywhere = raw.whereOp(raw.onesLike(raw.cast(matrix, { dstT: 'bool' })));
    return {
      ids: new SparseTensor({
        indices: everywhere,
        values: raw.reshape(ids, Tensor.of(Int32Array.of(-1))),
        denseShape: raw.shape(matrix, { outType: 'int64' }),
      }),
    };
  }

  #buckets(features: FeatureTensors): Output {
    return features.once(this, () =>
      raw.bucketize(this.sourceColumn.denseTensor(features), { boundaries: this.boundaries }),
    );
  }
}
