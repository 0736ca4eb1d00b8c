/**
 * A sparse gradient: `values[i]` belongs to row `indices[i]`; rows may repeat. It stays sparse up to the optimizer, so
 * that its cost does not depend on the size of the table.
 */
import { ShoalError } from '../../base/errors/errors.js';
import { Output } from '../graph/operation.js';
import { concat, expandDims, gather, unique } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';

export class IndexedSlices {
  readonly values: Output;
  readonly indices: Output;
  /** The shape of the dense gradient as a tensor, if known. */
  readonly denseShape: Output | undefined;
  /** Whether all rows are distinct. */
  readonly isDistinct: boolean;

  constructor(values: Output, indices: Output, denseShape?: Output, isDistinct = false) {
    this.values = values;
    this.indices = indices;
    this.denseShape = denseShape;
    this.isDistinct = isDistinct;
  }

  get dtype(): DType {
    return this.values.dtype;
  }

  /** The same gradient with repeated rows summed. */
  deduplicated(): IndexedSlices {
    if (this.isDistinct) return this;
    const { y, idx } = unique(this.indices);
    const sums = raw.unsortedSegmentSum(this.values, idx, raw.size(y));
    return new IndexedSlices(sums, y, this.denseShape, true);
  }

  /** The dense gradient, with zeros in the other rows. It is as large as the variable. */
  toDense(): Output {
    if (!this.denseShape) {
      throw new ShoalError(
        'SHOAL_INVALID_ARGUMENT',
        'Cannot convert IndexedSlices of unknown shape to a dense tensor',
        {
          hint: 'Pass the dense shape as the third argument of IndexedSlices.',
        },
      );
    }
    const rows = gather(this.denseShape, 0);
    return raw.unsortedSegmentSum(this.values, this.indices, rows);
  }
}

export type Gradient = Output | IndexedSlices;

export const toDense = (gradient: Gradient): Output =>
  gradient instanceof IndexedSlices ? gradient.toDense() : gradient;

/**
 * The sum of the gradients of one tensor. IndexedSlices are concatenated; if there are dense gradients too, the slices
 * are added to their sum.
 */
export function aggregate(gradients: readonly Gradient[]): Gradient {
  if (gradients.length === 1) return gradients[0] as Gradient;
  const slices = gradients.filter((gradient) => gradient instanceof IndexedSlices);
  const dense = gradients.filter((gradient): gradient is Output => !(gradient instanceof IndexedSlices));
  if (dense.length === 0) return joinSlices(slices);
  const sum = dense.length === 1 ? (dense[0] as Output) : raw.addN(dense);
  if (slices.length === 0) return sum;
  const { indices, values } = joinSlices(slices);
  return raw.tensorScatterAdd(sum, expandDims(indices, -1), values);
}

function joinSlices(slices: readonly IndexedSlices[]): IndexedSlices {
  if (slices.length === 1) return slices[0] as IndexedSlices;
  const isWide = slices.some(({ indices }) => indices.dtype === 'int64');
  return new IndexedSlices(
    concat(slices.map(({ values }) => values)),
    concat(slices.map(({ indices }) => (isWide ? toInt64(indices) : indices))),
    slices.find(({ denseShape }) => denseShape)?.denseShape,
  );
}

const toInt64 = (indices: Output): Output =>
  indices.dtype === 'int64' ? indices : raw.cast(indices, { dstT: 'int64' });

export const isGradient = (value: unknown): value is Gradient =>
  value instanceof Output || value instanceof IndexedSlices;
