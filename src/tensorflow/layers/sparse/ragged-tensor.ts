/**
 * A ragged tensor of the graph: rows of different lengths, as all their values and where each row begins. Values may be
 * ragged themselves. Its parts are ordinary tensors: fetch `flatValues` and `rowSplits`.
 */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { concat, gather, reshape, stack } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';
import { SparseTensor } from './sparse-tensor.js';

const int64 = (value: number): Tensor => Tensor.of(BigInt(value), { dtype: 'int64' });
const int32 = (...values: number[]): Tensor => Tensor.of(Int32Array.from(values));
const axis0 = Tensor.of(0, { dtype: 'int32' });

export class RaggedTensor<D extends DType = DType> {
  readonly values: Output<D> | RaggedTensor<D>;
  /** Row i is values[rowSplits[i], rowSplits[i + 1]); int64, one more than there are rows. */
  readonly rowSplits: Output<'int64'>;

  private constructor(values: Output<D> | RaggedTensor<D>, rowSplits: Output<'int64'>) {
    if (rowSplits.rank !== null && rowSplits.rank !== 1)
      throw invalid(`The row splits of a ragged tensor must be a vector; got ${rowSplits}`);
    if (!(values instanceof RaggedTensor) && values.rank === 0)
      throw invalid(`The values of a ragged tensor must have at least one axis; got ${values}`);
    this.values = values;
    this.rowSplits = rowSplits;
  }

  static fromRowSplits<D extends DType>(
    values: Operand<D> | RaggedTensor<D>,
    rowSplits: Operand<'int64'>,
  ): RaggedTensor<D> {
    return new RaggedTensor(valuesOf(values), asInt64(rowSplits));
  }

  static fromRowLengths<D extends DType>(
    values: Operand<D> | RaggedTensor<D>,
    rowLengths: Operand<'int64'>,
  ): RaggedTensor<D> {
    const lengths = asInt64(rowLengths);
    const ends = raw.cumsum(lengths, axis0);
    return new RaggedTensor(
      valuesOf(values),
      concat([Tensor.of(BigInt64Array.of(0n)), ends], 0) as Output<'int64'>,
    );
  }

  /** `valueRowids` has the row of each value, ascending; default of `nrows`: up to the last row that has values. */
  static fromValueRowids<D extends DType>(
    values: Operand<D> | RaggedTensor<D>,
    valueRowids: Operand<'int64'>,
    nrows?: Operand<'int64'> | null,
  ): RaggedTensor<D> {
    const rows = asInt64(valueRowids);
    const count =
      nrows === undefined || nrows === null ? raw.addV2(largest(rows, -1), int64(1)) : asInt64(nrows);
    const lengths = raw.unsortedSegmentSum(raw.onesLike(rows), rows, count);
    return RaggedTensor.fromRowLengths(values, lengths as Output<'int64'>);
  }

  /** The rows of a matrix of ids or words, as `tf.strings.split` and `tf.parseExample` return them. */
  static fromSparse<D extends DType>(input: SparseTensor<D>): RaggedTensor<D> {
    if (input.rank !== null && input.rank !== 2)
      throw invalid(`RaggedTensor.fromSparse needs a sparse tensor with two axes, it has ${input.rank}`);
    const rows = reshape(raw.slice(input.indices, int32(0, 0), int32(-1, 1)), [-1]) as Output<'int64'>;
    return RaggedTensor.fromValueRowids(input.values, rows, gather(input.denseShape, 0) as Output<'int64'>);
  }

  get dtype(): D {
    return this.flatValues.dtype;
  }

  /** How many axes have rows of different lengths. */
  get raggedRank(): number {
    return this.values instanceof RaggedTensor ? this.values.raggedRank + 1 : 1;
  }

  /** The values within all rows. */
  get flatValues(): Output<D> {
    return this.values instanceof RaggedTensor ? this.values.flatValues : this.values;
  }

  /** The row splits of each ragged axis, the outermost first. */
  get nestedRowSplits(): readonly Output<'int64'>[] {
    return [this.rowSplits, ...(this.values instanceof RaggedTensor ? this.values.nestedRowSplits : [])];
  }

  nrows(): Output<'int64'> {
    return raw.sub(raw.size(this.rowSplits, { outType: 'int64' }), int64(1)) as Output<'int64'>;
  }

  rowLengths(): Output<'int64'> {
    return raw.sub(this.#ends(), this.#starts()) as Output<'int64'>;
  }

  /** The row of each value. */
  valueRowids(): Output<'int64'> {
    const count = gather(this.rowSplits, raw.sub(raw.size(this.rowSplits), Tensor.of(1, { dtype: 'int32' })));
    const places = raw.range(int64(0), count, int64(1));
    const found = raw.upperBound(raw.expandDims(this.#ends(), axis0), raw.expandDims(places, axis0), {
      outType: 'int64',
    });
    return reshape(found, [-1]) as Output<'int64'>;
  }

  /** The same rows with other values. */
  withValues<E extends DType>(values: Output<E> | RaggedTensor<E>): RaggedTensor<E> {
    return new RaggedTensor(values, this.rowSplits);
  }

  /** The same rows with other innermost values. */
  withFlatValues<E extends DType>(values: Output<E>): RaggedTensor<E> {
    return this.withValues(this.values instanceof RaggedTensor ? this.values.withFlatValues(values) : values);
  }

  /** The rows padded to the longest. */
  toTensor(defaultValue?: Operand<D> | null): Output<D> {
    const { indices, shape } = this.#places();
    const flat = this.flatValues;
    const fill = asOutput(defaultValue ?? (flat.dtype === 'string' ? '' : 0), flat.dtype);
    const whole = concat([shape, raw.slice(raw.shape(flat, { outType: 'int64' }), int32(1), int32(-1))], 0);
    return raw.tensorScatterUpdate(raw.fill(whole, fill), indices, flat) as Output<D>;
  }

  /** The values must be a vector. */
  toSparse(): SparseTensor<D> {
    const { indices, shape } = this.#places();
    return new SparseTensor<D>({ indices, values: this.flatValues, denseShape: shape });
  }

  #starts(): Output {
    return raw.slice(this.rowSplits, int32(0), raw.sub(raw.shape(this.rowSplits), int32(1)));
  }

  #ends(): Output {
    return raw.slice(this.rowSplits, int32(1), int32(-1));
  }

  /** Where each of the flat values is in the padded tensor, and the shape of that. */
  #places(): { readonly indices: Output<'int64'>; readonly shape: Output<'int64'> } {
    const rows = this.valueRowids();
    const own = raw.sub(
      raw.range(int64(0), raw.size(rows, { outType: 'int64' }), int64(1)),
      gather(this.#starts(), rows),
    );
    const first = stack([rows, own], { axis: 1 });
    const lengths = [this.nrows(), largest(this.rowLengths(), 0)];
    if (!(this.values instanceof RaggedTensor))
      return { indices: first as Output<'int64'>, shape: stack(lengths) as Output<'int64'> };
    const inner = this.values.#places();
    const outer = gather(first, reshape(raw.slice(inner.indices, int32(0, 0), int32(-1, 1)), [-1]));
    return {
      indices: concat([outer, raw.slice(inner.indices, int32(0, 1), int32(-1, -1))], 1) as Output<'int64'>,
      shape: concat([stack(lengths), raw.slice(inner.shape, int32(1), int32(-1))], 0) as Output<'int64'>,
    };
  }
}

const valuesOf = <D extends DType>(values: Operand<D> | RaggedTensor<D>): Output<D> | RaggedTensor<D> =>
  values instanceof RaggedTensor ? values : (asOutput(values) as Output<D>);

function asInt64(value: Operand): Output<'int64'> {
  const given = asOutput(value, 'int64');
  return (given.dtype === 'int64' ? given : raw.cast(given, { dstT: 'int64' })) as Output<'int64'>;
}

/** The largest element, at least `least`, also of an empty vector. */
const largest = (x: Output, least: number): Output => raw.maximum(raw.max(x, int32(0)), int64(least));
