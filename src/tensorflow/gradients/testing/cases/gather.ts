/** Gradient cases of lookups, scatters and stitches. */
import type { Output } from '../../../graph/operation.js';
import * as raw from '../../../ops/generated/index.js';
import { Tensor } from '../../../tensor/tensor.js';
import { Variable } from '../../../variables/variable.js';
import { f, f32, type GradientCase, ints, type Program } from '../case.js';

const gatherV2 = (
  params: readonly number[],
  indices: ReturnType<typeof ints>,
  axis: number,
  batchDims = 0,
): GradientCase => ({
  op: 'GatherV2',
  inputs: [f(params), indices, ints(axis)],
  attrs: { batch_dims: batchDims },
});

/** The axis is always a constant, so the gradient is sparse. */
const alongRows = (params: readonly number[], indices: ReturnType<typeof ints>): GradientCase => ({
  op: 'GatherV2',
  name: 'rows',
  inputs: [f(params), indices],
  build: ([table, picks]) => [raw.gatherV2(table as Output, picks as Output, ints32(0))],
});
const ints32 = (value: number): Tensor => Tensor.of(value, { dtype: 'int32' });

const lookups: readonly GradientCase[] = [
  { op: 'Gather', inputs: [f([4, 2]), ints([1, 3, 1])] },
  { op: 'Gather', inputs: [f([4]), ints(2, { dtype: 'int64' })] },
  alongRows([4, 2], ints([1, 3, 1])),
  alongRows([4], ints(2, { dtype: 'int64' })),
  alongRows([4, 2], ints([], { shape: [0, 3] })),
  gatherV2([3, 4, 2], ints([1, 0, 1, 3], { shape: [2, 2] }), 1),
  gatherV2([3, 4], ints([1, 1, 3], { dtype: 'int64' }), -1),
  gatherV2([2, 3], ints(2), 1),
  gatherV2([2, 3, 2], ints([0, 2, 1, 1], { shape: [2, 2] }), 1, 1),
  gatherV2([2, 2, 3], ints([0, 2, 1, 1], { shape: [2, 2] }), 2, 1),
  gatherV2([2, 2, 3], ints([0, 2, 1, 1, 0, 0, 2, 2], { shape: [2, 2, 2] }), -1, 2),
  gatherV2([2, 3], ints([0, 2], { shape: [2] }), 1, 1),
  gatherV2([0, 3], ints([], { shape: [0, 2] }), 1, 1),
  { ...gatherV2([2, 3], ints([0, 2, 1, 1], { shape: [2, 2] }), 1, -1), noUnknown: 'the batch needs a rank' },
  { op: 'GatherNd', inputs: [f([3, 4]), ints([0, 1, 2, 3, 0, 1], { shape: [3, 2] })] },
  {
    op: 'GatherNd',
    inputs: [f([3, 4]), ints([0, 2, 0], { shape: [3, 1] })],
    noUnknown: 'it is sparse only where the indices are known to be rows',
  },
  {
    op: 'GatherNd',
    inputs: [f([2, 3, 2]), ints([0, 1, 1, 2], { shape: [1, 2, 2], dtype: 'int64' })],
  },
];

const scatters: readonly GradientCase[] = [
  { op: 'ScatterNd', inputs: [ints([0, 2, 0], { shape: [3, 1] }), f([3, 2]), ints([4, 2])] },
  { op: 'ScatterNd', inputs: [ints([0, 1, 1, 2], { shape: [2, 2] }), f([2]), ints([2, 3])] },
  ...['TensorScatterUpdate', 'TensorScatterAdd', 'TensorScatterSub'].flatMap((op): GradientCase[] => [
    { op, inputs: [f([4, 2]), ints([0, 2], { shape: [2, 1] }), f([2, 2])] },
    { op, inputs: [f([2, 3]), ints([0, 1, 1, 2], { shape: [2, 2], dtype: 'int64' }), f([2])] },
  ]),
  ...['TensorScatterMax', 'TensorScatterMin'].flatMap((op): GradientCase[] => [
    { op, inputs: [f([4]), ints([0, 2, 3], { shape: [3, 1] }), f([3])] },
    {
      op,
      name: 'equal values share',
      inputs: [
        { ...f([3]), values: [1, 2, 3] },
        ints([0, 0, 1], { shape: [3, 1] }),
        { ...f([3]), values: [1, 1, 2] },
      ],
      noNumeric: 'a kink',
    },
  ]),
  { op: 'ScatterNdNonAliasingAdd', inputs: [f([4]), ints([0, 2], { shape: [2, 1] }), f([2])] },
];

const stitches: readonly GradientCase[] = [
  ...['DynamicStitch', 'ParallelDynamicStitch'].flatMap((op): GradientCase[] => [
    {
      op,
      inputs: [
        [ints(4), ints([0, 3]), ints([2, 1], { shape: [1, 2] })],
        [f([2]), f([2, 2]), f([1, 2, 2])],
      ],
    },
    { op, inputs: [[ints([1, 0])], [f32([2])]] },
  ]),
  { op: 'DynamicPartition', inputs: [f([5, 2]), ints([0, 2, 0, 2, 0])], attrs: { num_partitions: 3 } },
  {
    op: 'DynamicPartition',
    name: 'one output unused',
    inputs: [f([2, 2, 3]), ints([0, 1, 1, 0], { shape: [2, 2] })],
    attrs: { num_partitions: 2 },
    outputs: [1],
  },
];

/** A variable initialized with the first input; the second holds the indices. */
const lookedUp =
  (read: (variable: Variable, indices: Output) => Output) =>
  ([start, indices]: readonly Output[]): Program => {
    const table = Variable.create({ initialValue: start as Output, name: 'table' });
    return { outputs: [read(table, indices as Output)], xs: [table], init: [table.initializer] };
  };

const variables: readonly GradientCase[] = [
  {
    op: 'ReadVariableOp',
    inputs: [f([2, 3])],
    build: ([start]) => {
      const variable = Variable.create({ initialValue: start as Output, name: 'v' });
      return { outputs: [variable.toOutput()], xs: [variable], init: [variable.initializer] };
    },
  },
  {
    op: 'ResourceGather',
    inputs: [f([4, 2]), ints([1, 3, 1])],
    build: lookedUp((table, indices) => table.gather(indices)),
  },
  {
    op: 'ResourceGather',
    inputs: [f([4]), ints([1, 3, 1, 0], { shape: [2, 2], dtype: 'int64' })],
    build: lookedUp((table, indices) => table.gather(indices)),
  },
  {
    op: 'ResourceGather',
    name: 'with batches',
    inputs: [f([2, 3]), ints([1, 2, 1, 0], { shape: [2, 2] })],
    build: lookedUp((table, indices) =>
      raw.resourceGather(table.handle, indices, { dtype: table.dtype, batchDims: 1 }),
    ),
    noOracle: 'TensorFlow takes the batches for rows',
    noUnknown: 'the batch needs a rank',
  },
  {
    op: 'ResourceGatherNd',
    inputs: [f([3, 2]), ints([0, 1, 2, 0], { shape: [2, 2] })],
    build: lookedUp((table, indices) => raw.resourceGatherNd(table.handle, indices, { dtype: table.dtype })),
  },
  {
    op: 'ResourceGatherNd',
    inputs: [f([3, 2]), ints([0, 2, 0], { shape: [3, 1] })],
    build: lookedUp((table, indices) => raw.resourceGatherNd(table.handle, indices, { dtype: table.dtype })),
    noUnknown: 'it is sparse only where the indices are known to be rows',
  },
];

export const gatherCases: readonly GradientCase[] = [...lookups, ...scatters, ...stitches, ...variables];
