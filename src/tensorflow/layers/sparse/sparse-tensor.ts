/** A sparse tensor of the graph: the indices and values of its elements. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { gather, reshape } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { placeholder } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';

export interface SparseTensorParts {
  /** [number of elements, rank], int64, in row-major order. */
  readonly indices: Operand<'int64'>;
  /** [number of elements] */
  readonly values: Operand;
  /** [rank], int64 */
  readonly denseShape: Operand<'int64'>;
}

export class SparseTensor<D extends DType = DType> {
  readonly indices: Output<'int64'>;
  readonly values: Output<D>;
  readonly denseShape: Output<'int64'>;

  constructor(parts: SparseTensorParts) {
    this.indices = asOutput<'int64'>(parts.indices, 'int64');
    this.values = asOutput(parts.values) as Output<D>;
    this.denseShape = asOutput<'int64'>(parts.denseShape, 'int64');
    if (this.indices.rank !== null && this.indices.rank !== 2) {
      throw invalid(`The indices of a sparse tensor must have shape [elements, rank]; got ${this.indices}`);
    }
  }

  /** Three placeholders: feed `.indices`, `.values` and `.denseShape`. Default: float32, any rank, named `sparse`. */
  static placeholder<D extends DType = 'float32'>(
    options: { readonly dtype?: D | null; readonly rank?: number | null; readonly name?: string | null } = {},
  ): SparseTensor<D> {
    const { rank = null } = options;
    const [dtype, name] = [options.dtype ?? ('float32' as D), options.name ?? 'sparse'];
    return new SparseTensor<D>({
      indices: placeholder({ dtype: 'int64', shape: [null, rank], name: `${name}/indices` }),
      values: placeholder({ dtype, shape: [null], name: `${name}/values` }),
      denseShape: placeholder({ dtype: 'int64', shape: [rank], name: `${name}/shape` }),
    });
  }

  get dtype(): D {
    return this.values.dtype;
  }

  get rank(): number | null {
    return this.denseShape.shape?.[0] ?? this.indices.shape?.[1] ?? null;
  }

  /** The same indices with other values. */
  withValues<E extends DType>(values: Output<E>): SparseTensor<E> {
    return new SparseTensor<E>({ indices: this.indices, values, denseShape: this.denseShape });
  }

  /** The same elements in another shape. */
  reshape(shape: Operand<'int64'>): SparseTensor<D> {
    const { outputIndices, outputShape } = raw.sparseReshape(this.indices, this.denseShape, shape);
    return new SparseTensor<D>({ indices: outputIndices, values: this.values, denseShape: outputShape });
  }

  /** Keeps only the elements whose flag is true. */
  retain(flags: Output<'bool'>): SparseTensor<D> {
    const places = reshape(raw.whereOp(flags), [-1]);
    return new SparseTensor<D>({
      indices: gather(this.indices, places),
      values: gather(this.values, places),
      denseShape: this.denseShape,
    });
  }

  /** Adds one element, at column 0, to each empty row; also returns which rows were empty. */
  fillEmptyRows(value: Operand<D>): { filled: SparseTensor<D>; isEmpty: Output<'bool'> } {
    const made = raw.sparseFillEmptyRows(this.indices, this.values, this.denseShape, value);
    return {
      filled: new SparseTensor<D>({
        indices: made.outputIndices,
        values: made.outputValues as Output<D>,
        denseShape: this.denseShape,
      }),
      isEmpty: made.emptyRowIndicator,
    };
  }

  /** The dense tensor, with `defaultValue` for missing elements. */
  toDense(defaultValue: Operand<D> = 0): Output<D> {
    return raw.sparseToDense(this.indices, this.denseShape, this.values, defaultValue) as Output<D>;
  }
}
