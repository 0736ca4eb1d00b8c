/** Gradient cases of sparse tensors. */
import type { Output } from '../../../graph/operation.js';
import * as raw from '../../../ops/generated/index.js';
import { Variable } from '../../../variables/variable.js';
import { complex, f, type GradientCase, type InputSpec, ints } from '../case.js';

const RANKED = 'TensorFlow builds it only when ranks are known';
const int64 = (values: readonly number[], shape?: readonly number[]): InputSpec =>
  ints(values, { dtype: 'int64', ...(shape ? { shape } : {}) });

/** Four ordered indices in shape [2, 3]. */
const places = int64([0, 0, 0, 2, 1, 0, 1, 1], [4, 2]);
const shape = int64([2, 3]);

const products: readonly GradientCase[] = [false, true].flatMap((adjoint_a) =>
  [false, true].flatMap((adjoint_b): GradientCase[] => {
    const inner = adjoint_a ? 2 : 3;
    const dense = adjoint_b ? [4, inner] : [inner, 4];
    const attrs = { adjoint_a, adjoint_b };
    return [
      { op: 'SparseTensorDenseMatMul', inputs: [places, f([4]), shape, f(dense)], attrs },
      { op: 'SparseTensorDenseMatMul', inputs: [places, complex([4]), shape, complex(dense)], attrs },
    ];
  }),
);

export const sparseCases: readonly GradientCase[] = [
  ...products,
  { op: 'SparseTensorDenseMatMul', inputs: [int64([], [0, 2]), f([0]), shape, f([3, 2])] },
  {
    op: 'SparseTensorDenseMatMul',
    name: 'with a variable',
    inputs: [places, f([4]), shape, f([3, 2])],
    build: ([indices, values, size, start]) => {
      const table = Variable.create({ initialValue: start as Output, name: 'table' });
      const product = raw.sparseTensorDenseMatMul(indices as Output, values as Output, size as Output, table);
      return { outputs: [product], xs: [values as Output, table], init: [table.initializer] };
    },
  },
  {
    op: 'SparseAdd',
    inputs: [
      places,
      f([4]),
      shape,
      int64([0, 2, 1, 2], [2, 2]),
      f([2]),
      shape,
      { ...f([]), values: [0], constant: true },
    ],
    outputs: [1],
    noUnknown: RANKED,
  },
  { op: 'SparseTensorDenseAdd', inputs: [places, f([4]), shape, f([2, 3])] },
  ...['SparseDenseCwiseMul', 'SparseDenseCwiseDiv'].flatMap((op): GradientCase[] => [
    { op, inputs: [places, f([4]), shape, f([2, 3], [1, 2])] },
    { op, inputs: [places, f([4]), shape, f([3], [1, 2])] },
    { op, inputs: [places, f([4]), shape, f([2, 1], [1, 2])] },
    {
      op,
      inputs: [places, f([4]), shape, f([], [1, 2])],
      noOracle: 'TensorFlow fails on a scalar',
      noUnknown: 'a scalar must be known to be one',
    },
  ]),
  { op: 'SparseReduceSum', inputs: [places, f([4]), shape, ints([1])] },
  { op: 'SparseReduceSum', inputs: [places, f([4]), shape, ints([-2])], attrs: { keep_dims: true } },
  { op: 'SparseReduceSum', inputs: [places, f([4]), shape, ints([0, 1])] },
  { op: 'SparseReduceSum', inputs: [places, f([4]), shape, ints([])] },
  { op: 'SparseSoftmax', inputs: [places, f([4]), shape] },
  {
    op: 'SparseSoftmax',
    inputs: [int64([0, 0, 1, 1, 0, 0, 1, 1, 1], [3, 3]), f([3]), int64([2, 2, 3])],
  },
  { op: 'SparseToDense', inputs: [places, shape, f([4]), f([])], nullIsZero: 'of the shape' },
  {
    op: 'SparseToDense',
    name: 'one value',
    inputs: [places, shape, f([]), f([])],
    noOracle: 'TensorFlow gives it the wrong shape',
    noUnknown: 'the rank of the values distinguishes the cases',
  },
  {
    op: 'SparseToDense',
    name: 'indices of a vector',
    inputs: [int64([1, 3]), int64([4]), f([2]), f([])],
    noOracle: 'TensorFlow interprets them as one index',
  },
  {
    op: 'SparseReorder',
    inputs: [int64([1, 1, 0, 2, 1, 0, 0, 0], [4, 2]), f([4]), shape],
    outputs: [1],
  },
  {
    op: 'SparseSlice',
    inputs: [places, f([4]), shape, int64([0, 1]), int64([2, 2])],
    outputs: [1],
  },
  {
    op: 'SparseFillEmptyRows',
    inputs: [int64([0, 0, 0, 2, 2, 1], [3, 2]), f([3]), int64([4, 3]), f([])],
    outputs: [1],
  },
  {
    op: 'SparseFillEmptyRowsGrad',
    inputs: [int64([0, 1, 3]), f([5])],
    noOracle: 'TensorFlow has no gradient for it',
  },
];
