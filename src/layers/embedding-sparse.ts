/**
 * Bags of ids: for each row of a sparse tensor of ids the rows of the table are added up, with weights if there
 * are any, as TensorFlow 1's embedding_lookup_sparse and safe_embedding_lookup_sparse do.
 */
import { invalid } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import { concat, gather, reshape, slice, stack, unique } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import { cast, divNoNan, greater, greaterEqual, mul, prod, sqrt, square, where } from '../ops/math.js';
import { Tensor } from '../tensor/tensor.js';
import {
  type EmbeddingLookupOptions,
  type EmbeddingTable,
  embeddingLookup,
  partsOf,
} from './embedding-lookup.js';
import { graphFor } from './graph-for.js';
import type { SparseTensor } from './sparse-tensor.js';

/** `sum`: Σ w·row; `mean`: that by Σ w; `sqrtn`: that by √Σ w². */
export type Combiner = 'sum' | 'mean' | 'sqrtn';

export interface EmbeddingLookupSparseOptions extends Omit<EmbeddingLookupOptions, 'unique'> {
  readonly combiner?: Combiner | undefined;
}

const COMBINERS: readonly Combiner[] = ['sum', 'mean', 'sqrtn'];

/**
 * [rows, row of the table…], rows up to the last one that has an id; a row without ids in between is zeros.
 * `spWeights` has the places of `spIds`; null counts each id as 1.
 */
export function embeddingLookupSparse(
  params: EmbeddingTable,
  spIds: SparseTensor,
  spWeights: SparseTensor | null,
  options: EmbeddingLookupSparseOptions = {},
): Output {
  const { combiner = 'mean', name, ...lookup } = options;
  checkCombiner(combiner);
  return graphFor(spIds.values).nameScope(name ?? 'embedding_lookup_sparse', () => {
    const bags = cast(reshape(slice(spIds.indices, [0, 0], [-1, 1]), [-1]), 'int32');
    const { y, idx } = unique(spIds.values);
    const rows = embeddingLookup(params, y, { ...lookup, unique: false });
    return spWeights
      ? combineWeighted(rows, idx, bags, spWeights.values, combiner)
      : combine(rows, idx, bags, combiner);
  });
}

function checkCombiner(combiner: string): void {
  if ((COMBINERS as readonly string[]).includes(combiner)) return;
  throw invalid(`Combiner '${combiner}' is not known; there are ${COMBINERS.join(', ')}`);
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
  if (rank === null) throw invalid(`The rank of the rows ${rows} must be known to weight them`);
  const factors = reshape(cast(weights, each.dtype), [-1, ...new Array<number>(rank - 1).fill(1)]);
  const total = raw.segmentSum(mul(each, factors), bags);
  const result =
    combiner === 'sum'
      ? total
      : combiner === 'mean'
        ? divNoNan(total, raw.segmentSum(factors, bags))
        : divNoNan(total, sqrt(raw.segmentSum(square(factors), bags)));
  return isHalf ? cast(result, rows.dtype) : result;
}

export interface SafeEmbeddingLookupSparseOptions extends EmbeddingLookupSparseOptions {
  /** The id that a row without ids counts as having; such rows are zeros when left out. */
  readonly defaultId?: number | undefined;
}

/**
 * The same for data as it comes: ids below 0 are passed over, and with 'mean' and 'sqrtn' weights that are not
 * above 0; every row has a result, also the last ones; ids may have more than two axes.
 */
export function safeEmbeddingLookupSparse(
  params: EmbeddingTable,
  spIds: SparseTensor,
  spWeights: SparseTensor | null = null,
  options: SafeEmbeddingLookupSparseOptions = {},
): Output {
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
  if (rows.rank === null) throw invalid(`The rank of the rows ${rows} must be known`);
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
