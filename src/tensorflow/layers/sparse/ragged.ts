/** `tf.ragged`: ragged tensors from lists, and their reductions, under TensorFlow's names. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { constant } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { cast, div } from '../../ops/math.js';
import type { DType } from '../../tensor/dtype.js';
import type { NestedValue, Scalar } from '../../tensor/literal.js';
import { RaggedTensor } from './ragged-tensor.js';

/** Nested lists, of any lengths. */
export type NestedRows = readonly (Scalar | NestedRows)[];

/** `tf.ragged.constant([[1, 2], [], [3]])`: each axis after the first has rows of different lengths. */
export function constantRows<D extends DType = DType>(
  rows: NestedRows,
  options: { readonly dtype?: D | null } = {},
): RaggedTensor<D> {
  const depth = depthOf(rows);
  if (depth < 2)
    throw invalid('tf.ragged.constant needs a list of rows', { hint: 'For example [[1, 2], [], [3]].' });
  const lengths: number[][] = [];
  let level: NestedRows = rows;
  for (let axis = 1; axis < depth; axis++) {
    if (!level.every(Array.isArray))
      throw invalid('tf.ragged.constant needs lists of the same depth everywhere');
    lengths.push(level.map((row) => (row as NestedRows).length));
    level = level.flat(1) as NestedRows;
  }
  if (level.some(Array.isArray)) throw invalid('tf.ragged.constant needs lists of the same depth everywhere');
  const dtype = options.dtype ?? undefined;
  let values: Output<D> | RaggedTensor<D> = constant(level as NestedValue, {
    shape: [level.length],
    ...(dtype ? { dtype } : {}),
  }) as Output<D>;
  for (const own of lengths.reverse())
    values = RaggedTensor.fromRowLengths<D>(values, constant(own, { dtype: 'int64', shape: [own.length] }));
  return values as RaggedTensor<D>;
}

function depthOf(rows: NestedRows): number {
  return Array.isArray(rows) ? 1 + Math.max(0, ...rows.map((row) => depthOf(row as NestedRows))) : 0;
}

/** Applies a function to the values of ragged tensors with the same rows: `mapFlatValues(tf.add, a, b)`. */
export function mapFlatValues<E extends DType>(
  f: (...values: Output[]) => Output<E>,
  first: RaggedTensor,
  ...others: readonly RaggedTensor[]
): RaggedTensor<E> {
  return first.withFlatValues(f(first.flatValues, ...others.map(({ flatValues }) => flatValues)));
}

/** Reduces the values of each row. */
type Reduce = (values: Output, rows: Output<'int64'>, count: Output<'int64'>) => Output;

export interface RaggedReduceOptions {
  /** The ragged axis to reduce; it must be the innermost one. Default: that. */
  readonly axis?: number | null;
}

const reduction =
  (name: string, reduce: Reduce) =>
  (input: RaggedTensor, options: RaggedReduceOptions = {}): Output | RaggedTensor => {
    const { axis } = options;
    const innermost = input.raggedRank;
    if (axis !== undefined && axis !== null && axis !== innermost && axis !== -1)
      throw invalid(
        `tf.ragged.${name} reduces axis ${innermost}, the innermost ragged one; got axis ${axis}`,
        {
          hint: 'Convert the ragged tensor first: toTensor().',
        },
      );
    const reduced = (one: RaggedTensor): Output | RaggedTensor =>
      one.values instanceof RaggedTensor
        ? one.withValues(reduced(one.values))
        : reduce(one.values, one.valueRowids(), one.nrows());
    return reduced(input);
  };

/** The sum of each row; 0 for empty ones. */
export const reduceSum = reduction('reduceSum', (values, rows, count) =>
  raw.unsortedSegmentSum(values, rows, count),
);
/** The product of each row; 1 for empty ones. */
export const reduceProd = reduction('reduceProd', (values, rows, count) =>
  raw.unsortedSegmentProd(values, rows, count),
);
/** The largest value of each row; the lowest number for empty ones. */
export const reduceMax = reduction('reduceMax', (values, rows, count) =>
  raw.unsortedSegmentMax(values, rows, count),
);
/** The smallest value of each row; the highest number for empty ones. */
export const reduceMin = reduction('reduceMin', (values, rows, count) =>
  raw.unsortedSegmentMin(values, rows, count),
);
/** The mean of each row; NaN for empty ones. */
export const reduceMean = reduction('reduceMean', (values, rows, count) =>
  div(
    raw.unsortedSegmentSum(values, rows, count),
    cast(raw.unsortedSegmentSum(raw.onesLike(values), rows, count), values.dtype),
  ),
);

export { RaggedTensor } from './ragged-tensor.js';
export { constantRows as constant };
