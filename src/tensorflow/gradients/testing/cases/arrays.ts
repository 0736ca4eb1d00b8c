/** Gradient cases of ops that move elements. */
import { complex, f, f32, type GradientCase, ints } from '../case.js';

const NO_RULE = 'TensorFlow has no gradient for it';
const RANKED = 'TensorFlow builds it only when ranks are known';
const UNUSED = 'TensorFlow gives zeros for what does not depend on the output';

const passing: readonly GradientCase[] = [
  { op: 'Identity', inputs: [f([2, 3])] },
  { op: 'Identity', inputs: [f32([])] },
  { op: 'Snapshot', inputs: [f([2, 3])], noOracle: NO_RULE },
  { op: 'DebugIdentity', inputs: [f([2])], attrs: { tensor_name: 'x:0' }, noOracle: NO_RULE },
  { op: 'DebugIdentityV2', inputs: [f([2])], noOracle: NO_RULE },
  { op: 'EnsureShape', inputs: [f([2, 3])], attrs: { shape: [2, null] } },
  { op: 'PlaceholderWithDefault', inputs: [f([2, 3])], attrs: { shape: [null, 3] } },
  { op: 'Print', inputs: [f([2]), [f([1])]], attrs: { first_n: 0 } },
  { op: 'IdentityN', inputs: [[f([2]), f([3, 1]), f32([])]] },
  {
    op: 'IdentityN',
    name: 'one output unused',
    inputs: [[f([2]), f([3])]],
    outputs: [1],
    nullIsZero: UNUSED,
  },
  { op: 'CheckNumerics', inputs: [f([2, 3])], attrs: { message: 'here' } },
];

const shapes: readonly GradientCase[] = [
  { op: 'Reshape', inputs: [f([2, 6]), ints([3, 4])] },
  { op: 'Reshape', inputs: [f([2, 6]), ints([-1], { dtype: 'int64' })] },
  { op: 'Reshape', inputs: [f([]), ints([1, 1])] },
  { op: 'Reshape', inputs: [f([0, 3]), ints([3, 0, 2])] },
  { op: 'ExpandDims', inputs: [f([2, 3]), ints(1)] },
  { op: 'ExpandDims', inputs: [f([]), ints(-1)] },
  { op: 'Squeeze', inputs: [f([2, 1, 3, 1])] },
  { op: 'Squeeze', inputs: [f([2, 1, 3, 1])], attrs: { squeeze_dims: [-1] } },
  { op: 'Transpose', inputs: [f([2, 3, 4]), ints([1, 2, 0])] },
  { op: 'Transpose', inputs: [f([]), ints([])] },
  { op: 'Transpose', inputs: [complex([2, 0]), ints([1, 0], { dtype: 'int64' })] },
  { op: 'ConjugateTranspose', inputs: [complex([2, 3]), ints([1, 0])] },
  { op: 'ConjugateTranspose', inputs: [f([2, 3, 1]), ints([2, 0, 1])] },
  { op: 'BroadcastTo', inputs: [f([3, 1]), ints([2, 3, 4])] },
  { op: 'BroadcastTo', inputs: [f([]), ints([2, 2])] },
  { op: 'BroadcastTo', inputs: [f([1, 3]), ints([0, 3], { dtype: 'int64' })] },
  { op: 'Fill', inputs: [ints([2, 3]), f([])] },
  { op: 'Fill', inputs: [ints([]), f([])] },
  { op: 'Fill', inputs: [ints([0, 2]), f([])] },
];

const joins: readonly GradientCase[] = [
  { op: 'ConcatV2', inputs: [[f([2, 1]), f([2, 3]), f([2, 0])], ints(1)] },
  { op: 'ConcatV2', inputs: [[f([2, 1]), f([2, 3])], ints(-1)] },
  {
    op: 'ConcatV2',
    inputs: [[f([2]), f([1])], ints(0, { dtype: 'int64' })],
    noOracle: 'TensorFlow fails on an axis of int64',
  },
  { op: 'ConcatV2', name: 'many', inputs: [Array.from({ length: 20 }, (_, i) => f([1, i % 3])), ints(1)] },
  { op: 'Concat', inputs: [ints(1), [f([2, 1]), f([2, 3])]] },
  { op: 'Pack', inputs: [[f([2, 3]), f([2, 3])]], attrs: { axis: 1 } },
  { op: 'Pack', inputs: [[f([]), f([]), f([])]] },
  { op: 'Unpack', inputs: [f([2, 3])], attrs: { num: 3, axis: -1 } },
  { op: 'Unpack', name: 'one output unused', inputs: [f([3, 2])], attrs: { num: 3 }, outputs: [0, 2] },
  { op: 'Split', inputs: [ints(1), f([2, 6])], attrs: { num_split: 3 } },
  {
    op: 'Split',
    name: 'one output unused',
    inputs: [ints(0), f([4])],
    attrs: { num_split: 2 },
    outputs: [1],
  },
  { op: 'SplitV', inputs: [f([2, 6]), ints([1, 2, 3]), ints(1)], attrs: { num_split: 3 } },
  {
    op: 'SplitV',
    inputs: [f([6]), ints([0, -1], { dtype: 'int64' }), ints(0)],
    attrs: { num_split: 2 },
    outputs: [1],
  },
];

const MASKS = ['begin_mask', 'end_mask', 'ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask'];
const masks = (...values: number[]): Record<string, number> =>
  Object.fromEntries(MASKS.map((name, i) => [name, values[i] ?? 0]));
const strided = (
  shape: readonly number[],
  [begin, end, strides]: readonly [number[], number[], number[]],
  ...values: number[]
): GradientCase => ({
  op: 'StridedSlice',
  inputs: [f(shape), ints(begin), ints(end), ints(strides)],
  attrs: masks(...values),
});

const cuts: readonly GradientCase[] = [
  { op: 'Slice', inputs: [f([4, 5]), ints([1, 0]), ints([2, -1])] },
  { op: 'Slice', inputs: [f([4, 5]), ints([0, 5], { dtype: 'int64' }), ints([4, 0], { dtype: 'int64' })] },
  { op: 'Slice', inputs: [f([]), ints([]), ints([])] },
  strided(
    [4, 5],
    [
      [1, 4],
      [3, 0],
      [1, -2],
    ],
  ),
  strided(
    [4, 5, 2],
    [
      [0, 1],
      [0, 3],
      [1, 1],
    ],
    1,
    1,
  ),
  strided(
    [4, 5, 2],
    [
      [0, 1],
      [0, 0],
      [1, 1],
    ],
    0,
    0,
    1,
    0,
    2,
  ),
  strided(
    [4, 5],
    [
      [0, 0, 1],
      [0, 0, 0],
      [1, 1, 1],
    ],
    0,
    0,
    2,
    1,
    4,
  ),
  strided([3], [[1], [2], [1]], 0, 0, 0, 0, 1),
  strided([3], [[2], [1], [1]]),
  strided(
    [0, 2],
    [
      [0, 0],
      [0, 1],
      [1, 1],
    ],
    1,
    1,
  ),
  {
    op: 'StridedSliceGrad',
    inputs: [ints([4, 5]), ints([1, 4]), ints([3, 0]), ints([1, -2]), f([2, 2])],
    attrs: masks(),
  },
  {
    op: 'TensorStridedSliceUpdate',
    inputs: [f([4, 5]), ints([1, 0]), ints([3, 5]), ints([1, 2]), f([2, 3])],
    attrs: masks(),
  },
  { op: 'Pad', inputs: [f([2, 3]), ints([1, 0, 0, 2], { shape: [2, 2] })] },
  { op: 'Pad', inputs: [f([0]), ints([1, 1], { shape: [1, 2], dtype: 'int64' })] },
  { op: 'Pad', inputs: [f([]), ints([], { shape: [0, 2] })] },
  { op: 'PadV2', inputs: [f([2, 3]), ints([1, 0, 0, 2], { shape: [2, 2] }), { ...f([]), constant: true }] },
  ...['REFLECT', 'SYMMETRIC'].flatMap((mode): GradientCase[] => [
    { op: 'MirrorPad', inputs: [f([3, 4]), ints([1, 1, 2, 0], { shape: [2, 2] })], attrs: { mode } },
    { op: 'MirrorPadGrad', inputs: [f([5, 6]), ints([1, 1, 2, 0], { shape: [2, 2] })], attrs: { mode } },
  ]),
];

const repeats: readonly GradientCase[] = [
  { op: 'Tile', inputs: [f([2, 3]), ints([2, 1])] },
  { op: 'Tile', inputs: [f([2, 3]), ints([1, 0], { dtype: 'int64' })] },
  { op: 'Tile', inputs: [f([]), ints([])] },
  {
    op: 'Reverse',
    inputs: [f([2, 3]), { dtype: 'bool', shape: [2], values: [0, 1], constant: true }],
  },
  { op: 'ReverseV2', inputs: [f([2, 3, 2]), ints([0, -1])] },
  { op: 'ReverseV2', inputs: [f([2]), ints([])] },
  {
    op: 'ReverseSequence',
    inputs: [f([2, 4, 3]), ints([3, 1], { dtype: 'int64' })],
    attrs: { seq_dim: 1, batch_dim: 0 },
  },
  { op: 'Roll', inputs: [f([3, 4]), ints([1, -2]), ints([0, 1])] },
  { op: 'Roll', inputs: [f([3]), ints(2), ints(0)] },
];

const blocks: readonly GradientCase[] = [
  {
    op: 'SpaceToBatch',
    inputs: [f([1, 4, 4, 2]), ints([0, 0, 0, 0], { shape: [2, 2] })],
    attrs: { block_size: 2 },
  },
  {
    op: 'BatchToSpace',
    inputs: [f([4, 2, 2, 1]), ints([0, 1, 0, 0], { shape: [2, 2] })],
    attrs: { block_size: 2 },
  },
  {
    op: 'SpaceToBatchND',
    inputs: [f([1, 3, 4, 2]), ints([2, 2]), ints([0, 1, 0, 0], { shape: [2, 2] })],
    noUnknown: RANKED,
  },
  {
    op: 'BatchToSpaceND',
    inputs: [f([4, 2, 2]), ints([2]), ints([0, 1], { shape: [1, 2] })],
    noUnknown: RANKED,
  },
  { op: 'SpaceToDepth', inputs: [f([1, 4, 4, 1])], attrs: { block_size: 2 } },
  { op: 'DepthToSpace', inputs: [f([1, 2, 2, 4])], attrs: { block_size: 2 } },
  ...['SAME', 'VALID'].map((padding) => ({
    op: 'ExtractImagePatches',
    inputs: [f([2, 5, 4, 2])],
    attrs: { ksizes: [1, 3, 2, 1], strides: [1, 2, 1, 1], rates: [1, 1, 2, 1], padding },
    noUnknown: RANKED,
  })),
];

const largest: readonly GradientCase[] = [
  { op: 'TopKV2', inputs: [f([3, 5]), ints(2)], outputs: [0] },
  { op: 'TopKV2', inputs: [f([4]), ints(4)], attrs: { sorted: false }, outputs: [0] },
  { op: 'TopKV2', inputs: [f([2, 2, 3]), ints(1)], outputs: [0] },
  { op: 'TopKV2', inputs: [f([0, 3]), ints(2)], outputs: [0] },
];

export const arrayCases: readonly GradientCase[] = [
  ...passing,
  ...shapes,
  ...joins,
  ...cuts,
  ...repeats,
  ...blocks,
  ...largest,
];
