/** Shape manipulation: reshape, slice, concat, split, gather, pad. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { broadcastShapes, type Shape } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { asOutput, integers, isPartReader, type Operand } from './build.js';
import { asShape } from './creation.js';
import * as raw from './generated/index.js';
import { keywords } from './keywords.js';

type IndexType = 'int32' | 'int64';
type IndexKeywords = { dtype: IndexType; outType: IndexType };

const int32 = (value: number | readonly number[]): Tensor =>
  Tensor.of(Array.isArray(value) ? Int32Array.from(value as number[]) : (value as number), {
    dtype: 'int32',
  });

/** Converts a number or a list of numbers to int32 indices; tensors are unchanged. */
const indexTensor = (value: Operand | readonly number[]): Operand =>
  typeof value === 'number' || (Array.isArray(value) && value.every((item) => typeof item === 'number'))
    ? int32(value as number | number[])
    : (value as Operand);

export const identity = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.identity(x, options);
/** `x` with gradients blocked. */
export const stopGradient = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.stopGradient(x, options);

/** The shape at run time. */
export const shape = keywords<IndexKeywords>()(
  1,
  [['dtype', 'outType']],
  (x: Operand, dtype: IndexType = 'int32', options?: OpOptions): Output =>
    raw.shape(x, { outType: dtype, ...options }),
);
export const rank = (x: Operand, options?: OpOptions): Output<'int32'> => raw.rank(x, options);
export const size = keywords<IndexKeywords>()(
  1,
  [['dtype', 'outType']],
  (x: Operand, dtype: IndexType = 'int32', options?: OpOptions): Output =>
    raw.size(x, { outType: dtype, ...options }),
);

/** The same elements in another shape; one size may be -1. */
export const reshape = <D extends DType>(
  x: Operand<D>,
  to: Shape | Operand,
  options?: OpOptions,
): Output<D> => raw.reshape(x, asShape(to), options);
export const flatten = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  reshape(x, [-1], options);

export const expandDims = keywords<{ axis: number }>()(
  1,
  ['axis'],
  <D extends DType>(x: Operand<D>, axis: number, options?: OpOptions): Output<D> =>
    raw.expandDims(x, int32(axis), options),
);
export const squeeze = keywords<{ axis: number | readonly number[] }>()(
  1,
  ['axis'],
  <D extends DType>(x: Operand<D>, axis: number | readonly number[] = [], options?: OpOptions): Output<D> =>
    raw.squeeze(x, { squeezeDims: typeof axis === 'number' ? [axis] : axis, ...options }),
);

/** Permutes the axes. Default: reversed. */
export const transpose = keywords<{
  permutation: readonly number[] | Operand;
  perm: readonly number[] | Operand;
}>()(1, [['permutation', 'perm']], transposed, { scoped: true });

function transposed<D extends DType>(x: Operand<D>, permutation?: readonly number[] | Operand): Output<D> {
  const output = asOutput(x);
  if (permutation !== undefined) return raw.transpose(output, indexTensor(permutation)) as Output<D>;
  if (output.rank !== null) {
    return raw.transpose(
      output,
      int32(Array.from({ length: output.rank }, (_, i) => (output.rank as number) - 1 - i)),
    ) as Output<D>;
  }
  const last = raw.sub(raw.rank(output), asOutput(1, 'int32'));
  return raw.transpose(output, raw.range(last, asOutput(-1, 'int32'), asOutput(-1, 'int32'))) as Output<D>;
}

export const concat = keywords<{ axis: number | Operand }>()(
  1,
  ['axis'],
  (inputs: readonly Operand[], axis: number | Operand = 0, options?: OpOptions): Output => {
    if (inputs.length === 0) throw invalid('concat needs at least one tensor');
    return inputs.length === 1
      ? identity(inputs[0] as Operand, options)
      : raw.concatV2(inputs, indexTensor(axis), options);
  },
);

export const stack = keywords<{ axis: number }>()(
  1,
  ['axis'],
  (inputs: readonly Operand[], axis = 0, options?: OpOptions): Output =>
    raw.pack(inputs, { axis, ...options }),
);

/** The slices along an axis, whose size must be known. */
export const unstack = keywords<{ axis: number }>()(
  1,
  ['axis'],
  (x: Operand, axis = 0, options?: OpOptions): Output[] => {
    const output = asOutput(x);
    const num = output.shape?.at(axis);
    if (num === undefined || num === null)
      throw invalid(`unstack needs a known size of axis ${axis} of ${output}`);
    return raw.unpack(output, { num, axis, ...options });
  },
);

/** Splits into a number of equal parts, or into parts of the given sizes. */
export const split = keywords<{ axis: number }>()(
  2,
  ['axis'],
  (x: Operand, parts: number | readonly number[], axis = 0, options?: OpOptions): Output[] => {
    if (typeof parts === 'number') return raw.split(int32(axis), x, { numSplit: parts, ...options });
    return raw.splitV(x, int32(parts), int32(axis), { numSplit: parts.length, ...options });
  },
);

/** A block of the given size at `begin`; size -1 means up to the end of the axis. */
export const slice = <D extends DType>(
  x: Operand<D>,
  begin: readonly number[] | Operand,
  size: readonly number[] | Operand,
  options?: OpOptions,
): Output<D> => raw.slice(x, indexTensor(begin), indexTensor(size), options);

export interface StridedSliceOptions extends OpOptions {
  /** The step of each axis; default: 1. */
  readonly strides?: readonly number[] | Operand;
  /** The axes, as bits, whose `begin` is ignored; default: 0. */
  readonly beginMask?: number;
  /** The axes, as bits, whose `end` is ignored; default: 0. */
  readonly endMask?: number;
  /** The position, as a bit, that stands for all axes not given; default: 0. */
  readonly ellipsisMask?: number;
  /** The positions, as bits, where an axis of size 1 is inserted; default: 0. */
  readonly newAxisMask?: number;
  /** The axes, as bits, that are indexed by `begin` and removed; default: 0. */
  readonly shrinkAxisMask?: number;
}

export function stridedSlice<D extends DType>(
  x: Operand<D>,
  begin: readonly number[] | Operand,
  end: readonly number[] | Operand,
  options: OrNull<StridedSliceOptions> = {},
): Output<D> {
  const { strides, ...rest } = withoutNull<StridedSliceOptions>(options);
  const start = asOutput(indexTensor(begin));
  const steps = strides === undefined ? raw.onesLike(start) : indexTensor(strides);
  return raw.stridedSlice(x, start, indexTensor(end), steps, rest);
}

export interface GatherOptions extends OpOptions {
  /** The axis to gather along; default: `batchDims`. */
  readonly axis?: number;
  /** The number of leading batch axes; default: 0. */
  readonly batchDims?: number;
}

/** Of a variable only the rows are read. */
export function gather<D extends DType>(
  x: Operand<D>,
  indices: Operand,
  options: OrNull<GatherOptions> = {},
): Output<D> {
  const { batchDims = 0, axis = batchDims, ...rest } = withoutNull<GatherOptions>(options);
  if (isPartReader<D>(x) && axis === 0 && batchDims === 0)
    return x.readRows(asOutput(integers(indices)), rest);
  return raw.gatherV2(x, integers(indices), int32(axis), { batchDims, ...rest });
}

/** Of a variable only the elements are read. */
export function gatherND<D extends DType>(x: Operand<D>, indices: Operand, options?: OpOptions): Output<D> {
  if (isPartReader<D>(x)) return x.readParts(asOutput(integers(indices)), options);
  return raw.gatherNd(x, integers(indices), options);
}

export const scatterND = (
  indices: Operand,
  updates: Operand,
  shape: Shape | Operand,
  options?: OpOptions,
): Output => raw.scatterNd(integers(indices), updates, asShape(shape), options);

export interface PadOptions extends OpOptions {
  /** What is added; default: 0. */
  readonly value?: Operand;
  /** Whether to add a constant, or reflected elements without or with the edge; default: 'constant'. */
  readonly mode?: 'constant' | 'reflect' | 'symmetric';
}

/** Pads each axis by [before, after], with `value` (default: 0) or, by `mode`, with reflected elements. */
export function pad<D extends DType>(
  x: Operand<D>,
  paddings: readonly (readonly [number, number])[] | Operand,
  options: OrNull<PadOptions> = {},
): Output<D> {
  const { value = 0, mode = 'constant', ...rest } = withoutNull<PadOptions>(options);
  const amounts = Array.isArray(paddings) ? Tensor.of(paddings, { dtype: 'int32' }) : (paddings as Operand);
  if (mode !== 'constant')
    return raw.mirrorPad(x, amounts, { mode: mode.toUpperCase() as 'REFLECT' | 'SYMMETRIC', ...rest });
  return (value === 0 ? raw.pad(x, amounts, rest) : raw.padV2(x, amounts, value, rest)) as Output<D>;
}

export const tile = <D extends DType>(
  x: Operand<D>,
  reps: readonly number[] | Operand,
  options?: OpOptions,
): Output<D> => raw.tile(x, indexTensor(reps), options);
export const reverse = <D extends DType>(
  x: Operand<D>,
  axis: readonly number[],
  options?: OpOptions,
): Output<D> => raw.reverseV2(x, int32(axis), options);
export const broadcastTo = <D extends DType>(
  x: Operand<D>,
  to: Shape | Operand,
  options?: OpOptions,
): Output<D> => raw.broadcastTo(x, asShape(to), options);

/** The k largest values of each row, in descending order, with their indices. */
export const topk = keywords<{ k: number | Operand; sorted: boolean }>()(
  1,
  ['k', 'sorted'],
  (
    x: Operand,
    k: number | Operand = 1,
    sorted = true,
    options?: OpOptions,
  ): { values: Output; indices: Output } => raw.topKV2(x, indexTensor(k), { sorted, ...options }),
);

/** The distinct values in order of first appearance, and the index of each element's value among them. */
export const unique = keywords<{ dtype: IndexType; outIdx: IndexType }>()(
  1,
  [['dtype', 'outIdx']],
  (x: Operand, dtype: IndexType = 'int32', options?: OpOptions): { y: Output; idx: Output } =>
    raw.unique(x, { outIdx: dtype, ...options }),
);

/** The rows for which the mask is true. */
export function booleanMask(x: Operand, mask: Operand): Output {
  const output = asOutput(x);
  const flags = asOutput(mask, 'bool');
  const maskRank = flags.rank;
  if (maskRank === null) throw invalid(`booleanMask needs a mask of known rank; got ${flags}`);
  const leading = output.shape?.slice(0, maskRank);
  if (leading && broadcastShapes(leading, flags.shape) === undefined) {
    throw invalid(`The mask ${flags} does not match the leading axes of ${output}`);
  }
  const rows =
    maskRank === 1
      ? output
      : reshape(
          output,
          concat(
            [[-1], raw.slice(raw.shape(output), int32([maskRank]), int32([-1]))].map((part) =>
              indexTensor(part as Operand),
            ),
          ),
        );
  const places = squeeze(raw.whereOp(reshape(flags, [-1])), [1]);
  return gather(rows, places);
}
