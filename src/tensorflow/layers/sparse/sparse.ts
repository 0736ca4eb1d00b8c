/** `tf.sparse`: TensorFlow's functions of sparse tensors under its names. */
import type { OrNull } from '../../../base/errors/null-options.js';
import { withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { gather, concat as join, reshape as reshaped } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import type { DType } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';
import { SparseTensor } from './sparse-tensor.js';

export { SparseTensor };

/** Placeholders for the three parts: feed `.indices`, `.values` and `.denseShape`. */
export const placeholder = SparseTensor.placeholder;

/** The elements that are not 0 or ''. */
export function fromDense<D extends DType>(tensor: Operand<D>): SparseTensor<D> {
  const x = asOutput(tensor) as Output<D>;
  const indices = raw.whereOp(
    raw.notEqual(x, x.dtype === 'string' ? asOutput('', 'string') : raw.zerosLike(x)),
  );
  return new SparseTensor<D>({
    indices,
    values: raw.gatherNd(x, indices) as Output<D>,
    denseShape: raw.shape(x, { outType: 'int64' }),
  });
}

export function toDense<D extends DType>(
  sp: SparseTensor<D>,
  options: { readonly defaultValue?: Operand<D> | null } = {},
): Output<D> {
  return sp.toDense(options.defaultValue ?? (sp.dtype === 'string' ? ('' as never) : 0));
}

interface Parts<D extends DType> {
  readonly outputIndices: Output<'int64'>;
  readonly outputValues: Output<D>;
  readonly outputShape: Output<'int64'>;
}

const made = <D extends DType>({ outputIndices, outputValues, outputShape }: Parts<D>): SparseTensor<D> =>
  new SparseTensor<D>({ indices: outputIndices, values: outputValues, denseShape: outputShape });

/** The indices in row-major order. */
export const reorder = <D extends DType>(sp: SparseTensor<D>): SparseTensor<D> => {
  const { outputIndices, outputValues } = raw.sparseReorder<D>(sp.indices, sp.values, sp.denseShape);
  return new SparseTensor<D>({ indices: outputIndices, values: outputValues, denseShape: sp.denseShape });
};

export const reshape = <D extends DType>(sp: SparseTensor<D>, shape: Operand<'int64'>): SparseTensor<D> =>
  sp.reshape(shape);

/** Keeps the elements whose flag is true. */
export const retain = <D extends DType>(sp: SparseTensor<D>, toRetain: Output<'bool'>): SparseTensor<D> =>
  sp.retain(toRetain);

/** Adds an element to each empty row; also returns which rows were empty. */
export function fillEmptyRows<D extends DType>(
  sp: SparseTensor<D>,
  defaultValue: Operand<D>,
): [filled: SparseTensor<D>, isEmpty: Output<'bool'>] {
  const { filled, isEmpty } = sp.fillEmptyRows(asOutput(defaultValue, sp.dtype) as Output<D>);
  return [filled, isEmpty];
}

/** Joins sparse tensors along an axis; the sizes of the others must be equal. */
export const concat = <D extends DType>(axis: number, inputs: readonly SparseTensor<D>[]): SparseTensor<D> =>
  made(
    raw.sparseConcat<D>(
      inputs.map(({ indices }) => indices),
      inputs.map(({ values }) => values),
      inputs.map(({ denseShape }) => denseShape),
      { concatDim: axis },
    ),
  );

export const slice = <D extends DType>(
  sp: SparseTensor<D>,
  start: Operand<'int64'>,
  size: Operand<'int64'>,
): SparseTensor<D> =>
  made(
    raw.sparseSlice<D>(
      sp.indices,
      sp.values,
      sp.denseShape,
      asOutput(start, 'int64'),
      asOutput(size, 'int64'),
    ),
  );

/** Default of `perm`: the axes in the reverse order, which must then be known. */
export function transpose<D extends DType>(
  sp: SparseTensor<D>,
  perm?: readonly number[] | null,
): SparseTensor<D> {
  const order = perm ?? Array.from({ length: sp.rank ?? 2 }, (_, i) => (sp.rank ?? 2) - 1 - i);
  const axes = Tensor.of(Int32Array.from(order));
  return reorder(
    new SparseTensor<D>({
      indices: raw.gatherV2(sp.indices, axes, Tensor.of(1, { dtype: 'int32' })),
      values: sp.values,
      denseShape: gather(sp.denseShape, axes),
    }),
  );
}

/** The sum of two sparse tensors. */
export function add<D extends DType>(a: SparseTensor<D>, b: SparseTensor<D>): SparseTensor<D> {
  const none = raw.cast(Tensor.of(0), { dstT: a.dtype });
  const sum = raw.sparseAdd<D>(a.indices, a.values, a.denseShape, b.indices, b.values, b.denseShape, none);
  return new SparseTensor<D>({
    indices: sum.sumIndices,
    values: sum.sumValues as Output<D>,
    denseShape: sum.sumShape,
  });
}

export interface SparseReduceOptions {
  /** The axes; default: all. */
  readonly axis?: number | readonly number[];
  readonly keepdims?: boolean;
}

const reduce =
  (op: typeof raw.sparseReduceSum) =>
  <D extends DType>(sp: SparseTensor<D>, given: OrNull<SparseReduceOptions> = {}): Output<D> => {
    const { axis, keepdims = false } = withoutNull<SparseReduceOptions>(given);
    const axes =
      axis === undefined
        ? raw.range(
            Tensor.of(0, { dtype: 'int32' }),
            raw.size(sp.denseShape),
            Tensor.of(1, { dtype: 'int32' }),
          )
        : Tensor.of(Int32Array.from([axis].flat()));
    return op<D>(sp.indices, sp.values, sp.denseShape, axes, { keepDims: keepdims });
  };

/** The sum over axes, dense. */
export const reduceSum = reduce(raw.sparseReduceSum);
/** The maximum over axes of the elements that exist, dense. */
export const reduceMax = reduce(raw.sparseReduceMax);

/** The softmax over the elements that exist of the last axis. */
export const softmax = <D extends DType>(sp: SparseTensor<D>): SparseTensor<D> =>
  sp.withValues(raw.sparseSoftmax<D>(sp.indices, sp.values, sp.denseShape));

export interface SparseMatmulOptions {
  readonly adjointA?: boolean;
  readonly adjointB?: boolean;
}

/** The product of a sparse matrix and a dense one. */
export const sparseDenseMatmul = <D extends DType>(
  sp: SparseTensor<D>,
  b: Operand<D>,
  options: OrNull<SparseMatmulOptions> = {},
): Output<D> => raw.sparseTensorDenseMatMul<D>(sp.indices, sp.values, sp.denseShape, b, options);

type SegmentOp = (data: Operand, indices: Operand, segmentIds: Operand) => Output;
type CountedSegmentOp = (
  data: Operand,
  indices: Operand,
  segmentIds: Operand,
  numSegments: Operand,
) => Output;

const segments =
  (op: SegmentOp, counted: CountedSegmentOp) =>
  (
    data: Operand,
    indices: Operand,
    segmentIds: Operand,
    options: { readonly numSegments?: Operand | null } = {},
  ): Output => {
    const ints = (x: Operand) => asOutput(x, 'int32');
    const { numSegments } = options;
    return numSegments === undefined || numSegments === null
      ? op(data, ints(indices), ints(segmentIds))
      : counted(data, ints(indices), ints(segmentIds), ints(numSegments));
  };

/** Sums of rows of `data`, chosen by `indices`, in the groups of `segmentIds`, which ascend. */
export const segmentSum = segments(raw.sparseSegmentSum, raw.sparseSegmentSumWithNumSegments);
/** Their means. */
export const segmentMean = segments(raw.sparseSegmentMean, raw.sparseSegmentMeanWithNumSegments);
/** Their sums divided by the square roots of their counts. */
export const segmentSqrtN = segments(raw.sparseSegmentSqrtN, raw.sparseSegmentSqrtNWithNumSegments);

export interface CrossHashedOptions {
  /** The number of buckets; default: 0, the hash itself. */
  readonly numBuckets?: number | bigint;
  /** The key of the hash; default: TensorFlow's. */
  readonly hashKey?: number | bigint;
}

const DEFAULT_HASH_KEY = 0xdecafcaffe;

/** The hashes of all combinations of the values in each row: matrices of strings or integers. */
export function crossHashed(
  inputs: readonly (Output | SparseTensor)[],
  given: OrNull<CrossHashedOptions> = {},
): SparseTensor<'int64'> {
  const { numBuckets = 0, hashKey } = withoutNull<CrossHashedOptions>(given);
  const typed = inputs.map(asCrossInput);
  const sparse = typed.filter((input) => input instanceof SparseTensor);
  const dense = typed.filter((input): input is Output => !(input instanceof SparseTensor));
  return made(
    raw.sparseCross<'int64'>(
      sparse.map(({ indices }) => indices),
      sparse.map(({ values }) => values),
      sparse.map(({ denseShape }) => denseShape),
      dense,
      {
        hashedOutput: true,
        numBuckets,
        // As in TensorFlow, 0 is the default.
        hashKey: hashKey || DEFAULT_HASH_KEY,
        outType: 'int64',
        internalType: typed.every(({ dtype }) => dtype === 'string') ? 'string' : 'int64',
      },
    ),
  );
}

/** The op takes strings and int64. */
function asCrossInput(input: Output | SparseTensor): Output | SparseTensor {
  if (input.dtype === 'string' || input.dtype === 'int64') return input;
  if (input instanceof SparseTensor) return input.withValues(raw.cast(input.values, { dstT: 'int64' }));
  return raw.cast(input, { dstT: 'int64' });
}

/** Ids as flags: [rows, vocabSize] of bool. */
export function toIndicator(sp: SparseTensor, vocabSize: number): Output<'bool'> {
  const size = Tensor.of(BigInt64Array.of(BigInt(vocabSize)));
  const last = raw.sub(raw.size(sp.denseShape), Tensor.of(1, { dtype: 'int32' }));
  const outer = raw.slice(
    sp.indices,
    Tensor.of(Int32Array.of(0, 0)),
    raw.pack([Tensor.of(-1, { dtype: 'int32' }), last]),
  );
  const ids = reshaped(raw.cast(sp.values, { dstT: 'int64' }), [-1, 1]);
  const shape = join(
    [
      raw.slice(sp.denseShape, Tensor.of(Int32Array.of(0)), raw.reshape(last, Tensor.of(Int32Array.of(1)))),
      size,
    ],
    0,
  );
  const counts = raw.scatterNd(join([outer, ids], 1), raw.onesLike(reshaped(ids, [-1])), shape);
  return raw.greater(counts, Tensor.of(0n, { dtype: 'int64' }));
}
