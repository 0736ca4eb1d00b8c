/** How often an example has each id, or the sums of their weights: TensorFlow's indicator_column. */
import type { Output } from '../../tensorflow/graph/operation.js';
import { concat, gather, reshape } from '../../tensorflow/ops/arrays.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Features } from '../input/dataset/parse-example.js';
import { checkCategorical } from './check.js';
import { type CategoricalColumn, type DenseColumn, FeatureColumn } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';

/** A dense column with an element for each id. */
export function indicatorColumn(categoricalColumn: CategoricalColumn): IndicatorColumn {
  return new IndicatorColumn(categoricalColumn);
}

export class IndicatorColumn extends FeatureColumn implements DenseColumn {
  readonly categoricalColumn: CategoricalColumn;

  /** @internal */
  constructor(column: CategoricalColumn) {
    super();
    checkCategorical('indicatorColumn', column);
    this.categoricalColumn = column;
  }

  get name(): string {
    return `${this.categoricalColumn.name}_indicator`;
  }

  get variableShape(): readonly number[] {
    return [1, this.categoricalColumn.numBuckets];
  }

  parseSpec(): Features {
    return this.categoricalColumn.parseSpec();
  }

  /** Each id adds to its element. The size does not depend on how many ids an example has. @internal */
  denseTensor(features: FeatureTensors): Output {
    return features.once(this, () => {
      const { ids, weights } = this.categoricalColumn.idsAndWeights(features);
      const size = Tensor.of(BigInt(this.categoricalColumn.numBuckets), { dtype: 'int64' });
      const values = raw.cast(ids.values, { dstT: 'int64' });
      const isId = raw.logicalAnd(
        raw.greaterEqual(values, Tensor.of(0n, { dtype: 'int64' })),
        raw.less(values, size),
      );
      const places = reshape(raw.whereOp(isId), [-1]);
      const kept = reshape(gather(values, places), [-1, 1]);
      const outer = raw.slice(
        gather(ids.indices, places),
        Tensor.of(Int32Array.of(0, 0)),
        raw.pack([
          Tensor.of(-1, { dtype: 'int32' }),
          raw.sub(raw.size(ids.denseShape), Tensor.of(1, { dtype: 'int32' })),
        ]),
      );
      const shape = concat([outerShape(ids.denseShape), raw.reshape(size, Tensor.of(Int32Array.of(1)))], 0);
      const each = weights ? raw.cast(weights.values, { dstT: 'float32' }) : raw.onesLike(asFloats(values));
      const dense = raw.scatterNd(concat([outer, kept], 1), gather(each, places), shape);
      return ids.rank === 2 ? dense.setShape([null, this.categoricalColumn.numBuckets]) : dense;
    });
  }
}

const asFloats = (x: Output): Output => raw.cast(x, { dstT: 'float32' });

/** All axes but the last. */
function outerShape(shape: Output): Output {
  const count = raw.sub(raw.size(shape), Tensor.of(1, { dtype: 'int32' }));
  return raw.slice(shape, Tensor.of(Int32Array.of(0)), raw.reshape(count, Tensor.of(Int32Array.of(1))));
}
