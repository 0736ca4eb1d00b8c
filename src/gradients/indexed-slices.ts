/**
 * A gradient that touches some rows only: `values[i]` belongs to row `indices[i]`; rows may repeat. It
 * stays in this form all the way to the optimizer, so that a table's size never matters.
 */
import { ShoalError } from '../errors/errors.js';
import { Output } from '../graph/operation.js';
import { concat, expandDims, gather, unique } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';

export class IndexedSlices {
  readonly values: Output;
  readonly indices: Output;
  /** The shape of the whole, as a tensor, where it is known. */
  readonly denseShape: Output | undefined;
  /** Whether no row is there twice. */
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

  /** The same gradient with every row at most once. */
  deduplicated(): IndexedSlices {
    if (this.isDistinct) return this;
    const { y, idx } = unique(this.indices);
    const sums = raw.unsortedSegmentSum(this.values, idx, raw.size(y));
    return new IndexedSlices(sums, y, this.denseShape, true);
  }

  /** The whole, with zeros in the rows that are not touched. It is as large as the variable. */
  toDense(): Output {
    if (!this.denseShape) {
      throw new ShoalError(
        'SHOAL_INVALID_ARGUMENT',
        'A sparse gradient of unknown shape cannot be made dense',
        {
          hint: 'Give IndexedSlices the shape of the whole as their third argument.',
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
 * The sum of the gradients of one tensor. Slices are put end to end; where dense gradients come to the same
 * tensor the slices are added into their sum.
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
