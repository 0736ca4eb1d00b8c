/**
 * A gradient that touches some rows only: `values[i]` belongs to row `indices[i]`; rows may repeat. It
 * stays in this form all the way to the optimizer, so that a table's size never matters.
 */
import { ShoalError } from '../errors/errors.js';
import { Output } from '../graph/operation.js';
import { concat, gather, unique } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import type { DType } from '../tensor/dtype.js';

export class IndexedSlices {
  readonly values: Output;
  readonly indices: Output;
  /** The shape of the whole, as a tensor, where it is known. */
  readonly denseShape: Output | undefined;

  constructor(values: Output, indices: Output, denseShape?: Output) {
    this.values = values;
    this.indices = indices;
    this.denseShape = denseShape;
  }

  get dtype(): DType {
    return this.values.dtype;
  }

  /** The same gradient with every row at most once. */
  deduplicated(): IndexedSlices {
    const { y, idx } = unique(this.indices);
    return new IndexedSlices(raw.unsortedSegmentSum(this.values, idx, raw.size(y)), y, this.denseShape);
  }

  /** The whole, with zeros in the rows that are not touched. It is as large as the variable. */
  toDense(): Output {
    if (!this.denseShape) {
      throw new ShoalError('SHOAL_INTERNAL', 'A sparse gradient of unknown shape cannot be made dense');
    }
    const rows = gather(this.denseShape, 0);
    return raw.unsortedSegmentSum(this.values, this.indices, rows);
  }
}

export type Gradient = Output | IndexedSlices;

export const toDense = (gradient: Gradient): Output =>
  gradient instanceof IndexedSlices ? gradient.toDense() : gradient;

/** The sum of the gradients of one tensor. All sparse: they are put end to end; else they are added. */
export function aggregate(gradients: readonly Gradient[]): Gradient {
  if (gradients.length === 1) return gradients[0] as Gradient;
  if (gradients.every((gradient) => gradient instanceof IndexedSlices)) {
    return joinSlices(gradients as readonly IndexedSlices[]);
  }
  return raw.addN(gradients.map(toDense));
}

function joinSlices(slices: readonly IndexedSlices[]): IndexedSlices {
  const wide = slices.some(({ indices }) => indices.dtype === 'int64');
  return new IndexedSlices(
    concat(
      slices.map(({ values }) => values),
      0,
    ),
    concat(
      slices.map(({ indices }) => (wide ? toInt64(indices) : indices)),
      0,
    ),
    slices[0]?.denseShape,
  );
}

const toInt64 = (indices: Output): Output =>
  indices.dtype === 'int64' ? indices : raw.cast(indices, { dstT: 'int64' });

export const isGradient = (value: unknown): value is Gradient =>
  value instanceof Output || value instanceof IndexedSlices;
