/**
 * Bags of ids: combines the table rows of the ids in each row of a sparse tensor, optionally weighted, as TensorFlow
 * 1's embedding_lookup_sparse and safe_embedding_lookup_sparse do.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { concat, gather, reshape, slice, stack, unique } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import { cast, divNoNan, greater, greaterEqual, mul, prod, sqrt, square, where } from '../ops/math.js';
import { Tensor } from '../tensor/tensor.js';
import {
  type EmbeddingLookupOptions,
  type EmbeddingTable,
  lookUpDistinct,
  partsOf,
} from './embedding-lookup.js';
import { graphFor } from './graph-for.js';
import type { SparseTensor } from './sparse/sparse-tensor.js';

/** `sum`: Σ w·row; `mean`: the sum divided by Σ w; `sqrtn`: the sum divided by √Σ w². */
export type Combiner = 'sum' | 'mean' | 'sqrtn';

export interface EmbeddingLookupSparseOptions extends Omit<EmbeddingLookupOptions, 'unique'> {
  /** How the rows of one example are combined; default: 'mean'. */
  readonly combiner?: Combiner;
}

const COMBINERS: readonly Combiner[] = ['sum', 'mean', 'sqrtn'];

/**
 * Returns [rows, table row…], up to the last row that has an id; earlier rows without ids are zeros.
 * `spWeights` has the indices of `spIds`; null means weight 1.
 */
export function embeddingLookupSparse(
  params: EmbeddingTable,
  spIds: SparseTensor,
  spWeights: SparseTensor | null,
  given: OrNull<EmbeddingLookupSparseOptions> = {},
): Output {
  const options = withoutNull<EmbeddingLookupSparseOptions>(given);
  const { combiner = 'mean', name, ...lookup } = options;
  checkCombiner(combiner);
  return graphFor(spIds.values).nameScope(name ?? 'embedding_lookup_sparse', () => {
    const bags = firstColumn(spIds.indices);
    const { y, idx } = unique(spIds.values, 'int64');
    const rows = lookUpDistinct(params, y, lookup);
    return spWeights
      ? combineWeighted(rows, idx, bags, spWeights.values, combiner)
      : combine(rows, idx, bags, combiner);
  });
}

function firstColumn(matrix: Output): Output {
  const pair = (a: number, b: number): Tensor => Tensor.of(Int32Array.of(a, b));
  return raw.stridedSlice(matrix, pair(0, 0), pair(0, 1), pair(1, 1), {
    beginMask: 1,
    endMask: 1,
    shrinkAxisMask: 2,
  });
}

function checkCombiner(combiner: string): void {
  if ((COMBINERS as readonly string[]).includes(combiner)) return;
  throw invalid(`Unknown combiner '${combiner}'; use one of ${COMBINERS.join(', ')}`);
}

function combine(rows: Output, idx: Output, bags: Output, combiner: Combiner): Output {
  switch (combiner) {
    case 'sum':
      return raw.sparseSegmentSum(rows, idx, bags);
    case 'mean':
      return raw.sparseSegmentMean(rows, idx, bags);
    case 'sqrtn':
      return raw.sparseSegmentSqrtN(rows, idx, bags);
  }
}

function combineWeighted(
  rows: Output,
  idx: Output,
  bags: Output,
  weights: Output,
  combiner: Combiner,
): Output {
  // Sums of half-precision numbers are kept in float32.
  const isHalf = rows.dtype === 'float16' || rows.dtype === 'bfloat16';
  const each = isHalf ? cast(gather(rows, idx), 'float32') : gather(rows, idx);
  const rank = each.rank;
  if (rank === null) throw invalid(`Weighted lookups need rows of known rank; got ${rows}`);
  const factors = reshape(cast(weights, each.dtype), [-1, ...new Array<number>(rank - 1).fill(1)]);
  const total =
    rank === 2 && (rows.dtype === 'float32' || rows.dtype === 'float64')
      ? bagSums(rows, idx, bags, cast(weights, rows.dtype))
      : raw.segmentSum(mul(each, factors), bags);
  const result =
    combiner === 'sum'
      ? total
      : combiner === 'mean'
        ? divNoNan(total, raw.segmentSum(factors, bags))
        : divNoNan(total, sqrt(raw.segmentSum(square(factors), bags)));
  return isHalf ? cast(result, rows.dtype) : result;
}

/**
 * Weighted sums as one matrix product: a sparse matrix (a row per bag, weights in the columns of its ids) times the
 * rows. The gradient of the rows is the product with the transposed matrix. Separate gather, multiply and segment-sum
 * ops take four times as long.
 */
function bagSums(rows: Output, idx: Output, bags: Output, weights: Output): Output {
  const int64 = (value: bigint): Tensor => Tensor.of(value, { dtype: 'int64' });
  // Without bags, the maximum is the smallest int64.
  const last = raw.maximum(raw.max(bags, Tensor.of(Int32Array.of(0))), int64(-1n));
  const columns = gather(raw.shape(rows, { outType: 'int64' }), 0);
  const shape = raw.pack([raw.add(last, int64(1n)), columns]);
  const sums = raw.sparseTensorDenseMatMul(interleave(bags, idx), weights, shape, rows);
  return sums.setShape([null, rows.shape?.[1] ?? null]);
}

/** [n], [n] → [n, 2] of int64. Interleaving them as parts of complex numbers is several times faster than stacking. */
function interleave(first: Output, second: Output): Output {
  const bits = (x: Output): Output => raw.bitcast(x, { type: 'float64' });
  const both = raw.complex(bits(first), bits(second), { tout: 'complex128' });
  return raw.bitcast(both, { type: 'int64' });
}

export interface SafeEmbeddingLookupSparseOptions extends EmbeddingLookupSparseOptions {
  /** The id to use for rows without ids. Default: such rows are zeros. */
  readonly defaultId?: number;
}

/**
 * The same for unclean data: skips negative ids and, for 'mean' and 'sqrtn', weights that are not positive; every row
 * has a result, including trailing empty ones; ids may have more than two axes.
 */
export function safeEmbeddingLookupSparse(
  params: EmbeddingTable,
  spIds: SparseTensor,
  spWeights: SparseTensor | null = null,
  given: OrNull<SafeEmbeddingLookupSparseOptions> = {},
): Output {
  const options = withoutNull<SafeEmbeddingLookupSparseOptions>(given);
  const { defaultId, combiner = 'mean', partitionStrategy = 'div', name, ...lookup } = options;
  checkCombiner(combiner);
  partsOf(params);
  return graphFor(spIds.values).nameScope(name ?? 'safe_embedding_lookup_sparse', () => {
    const outer = outerSizes(spIds);
    const flat = asMatrix(spIds, outer);
    const kept = prune(flat, spWeights && flat.withValues(spWeights.values), combiner);
    const ids = kept.ids.fillEmptyRows(Tensor.of(defaultId ?? 0, { dtype: spIds.dtype }));
    const weights = kept.weights?.fillEmptyRows(Tensor.of(1, { dtype: kept.weights.dtype }));
    const rows = embeddingLookupSparse(params, ids.filled, weights?.filled ?? null, {
      ...lookup,
      combiner,
      partitionStrategy,
    });
    return restoreOuter(defaultId === undefined ? zeroRows(rows, ids.isEmpty) : rows, spIds, outer);
  });
}

/** The sizes of all axes but the last. */
function outerSizes(spIds: SparseTensor): Output {
  const last = raw.sub(raw.size(spIds.denseShape), Tensor.of(Int32Array.of(1)));
  return slice(spIds.denseShape, [0], last);
}

/** Ids [a, b, …, n] as a matrix [a·b·…, n]. */
function asMatrix(spIds: SparseTensor, outer: Output): SparseTensor {
  const width = raw.stridedSlice(
    spIds.denseShape,
    Tensor.of(Int32Array.of(-1)),
    Tensor.of(Int32Array.of(0)),
    Tensor.of(Int32Array.of(1)),
    { shrinkAxisMask: 1 },
  );
  return spIds.reshape(stack([prod(outer), width]));
}

interface Kept {
  readonly ids: SparseTensor;
  readonly weights: SparseTensor | null;
}

function prune(ids: SparseTensor, weights: SparseTensor | null, combiner: Combiner): Kept {
  const isId = greaterEqual(ids.values, 0);
  const counts = weights && combiner !== 'sum' ? raw.logicalAnd(isId, greater(weights.values, 0)) : isId;
  return { ids: ids.retain(counts), weights: weights?.retain(counts) ?? null };
}

function zeroRows(rows: Output, isEmpty: Output<'bool'>): Output {
  if (rows.rank === null) throw invalid(`safeEmbeddingLookupSparse needs rows of known rank; got ${rows}`);
  const flags = reshape(isEmpty, [-1, ...new Array<number>(rows.rank - 1).fill(1)]);
  return where(flags, raw.zerosLike(rows), rows);
}

function restoreOuter(rows: Output, spIds: SparseTensor, outer: Output): Output {
  const { rank } = spIds;
  const rowShape = rows.shape?.slice(1);
  if (rank === 2) return rows;
  const shape = concat([cast(outer, 'int32'), slice(raw.shape(rows), [1], [-1])], 0);
  const result = reshape(rows, shape);
  if (rank === null || !rowShape) return result;
  return result.setShape([...new Array<null>(rank - 1).fill(null), ...rowShape]);
}
