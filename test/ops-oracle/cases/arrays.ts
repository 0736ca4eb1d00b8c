/** Shapes, slices, concatenation, gathers, scatters, padding, order. */
import { bools, i32, i64, noise, type OpCase, op, t, text } from '../case.js';

const matrix = noise([3, 4]);
const cube = noise([2, 3, 4]);
const image = noise([1, 4, 4, 2]);

export const arrays: readonly OpCase[] = [
  op('Shape', [cube]),
  op('Shape', [cube], { out_type: 'int64' }),
  op('ShapeN', [[cube, matrix]]),
  op('Rank', [cube]),
  op('Size', [cube], { out_type: 'int64' }),
  op('Reshape', [cube, i32([4, -1])]),
  op('Reshape', [t([]), i64([0, 3])]),
  op('ExpandDims', [matrix, i32(-1)]),
  op('Squeeze', [noise([1, 3, 1])], { squeeze_dims: [0] }),
  op('Transpose', [cube, i32([2, 0, 1])]),
  op('ConjugateTranspose', [noise([2, 3], -1, 1, 'complex64'), i32([1, 0])]),
  op('InvertPermutation', [i32([2, 0, 1])]),
  op('ConcatV2', [[matrix, noise([1, 4])], i32(0)]),
  op('Concat', [i32(1), [matrix, noise([3, 2])]]),
  op('ConcatOffset', [i32(1), [i32([2, 2]), i32([2, 3])]]),
  op('Pack', [[noise([2]), noise([2], 0, 1, 'float32', 2)]], { axis: 1 }),
  op('Unpack', [matrix], { num: 4, axis: 1 }),
  op('Split', [i32(1), matrix], { num_split: 2 }),
  op('SplitV', [matrix, i32([1, -1]), i32(1)], { num_split: 2 }),
  op('Slice', [cube, i32([0, 1, 1]), i32([1, -1, 2])]),
  op('StridedSlice', [cube, i32([0, 2, 0]), i32([2, 0, 4]), i32([1, -1, 2])]),
  op('StridedSlice', [cube, i32([0, 1]), i32([0, 2]), i32([1, 1])], {
    shrink_axis_mask: 2,
    begin_mask: 1,
    end_mask: 1,
  }),
  op('StridedSlice', [cube, i32([0, 0]), i32([0, 1]), i32([1, 1])], { ellipsis_mask: 1, new_axis_mask: 2 }),
  op('Tile', [matrix, i32([2, 1])]),
  op('Fill', [i32([2, 3]), t(7)]),
  op('Fill', [i64([2]), text('a')]),
  op('ZerosLike', [noise([2], 0, 1, 'int64')]),
  op('OnesLike', [noise([2], 0, 1, 'bool')]),
  op('Range', [i32(1), i32(10), i32(3)]),
  op('Range', [t(1), t(0), t(-0.25)]),
  op('LinSpace', [t(0), t(1), i32(5)]),
  op('OneHot', [i32([0, 2, -1]), i32(3), t(5), t(-1)], { axis: 0 }),
  op('BroadcastTo', [noise([3, 1]), i32([2, 3, 4])]),
  op('BroadcastArgs', [i32([2, 1]), i32([3])]),
  op('BroadcastGradientArgs', [i32([2, 1]), i32([3])]),
  op('Gather', [matrix, i32([2, 0])]),
  op('GatherV2', [cube, i32([[1, 0]]), i32(1)]),
  op(
    'GatherV2',
    [
      cube,
      i32([
        [0, 2],
        [1, 1],
      ]),
      i32(1),
    ],
    { batch_dims: 1 },
  ),
  op('GatherNd', [
    cube,
    i32([
      [0, 1],
      [1, 2],
    ]),
  ]),
  op('ScatterNd', [i32([[1], [3]]), t([5, 6]), i32([5])]),
  op('TensorScatterUpdate', [noise([5]), i32([[1], [3]]), t([5, 6])]),
  op('TensorScatterAdd', [noise([5]), i32([[1], [1]]), t([5, 6])]),
  op('TensorScatterSub', [noise([5]), i32([[1], [3]]), t([5, 6])]),
  op('TensorScatterMax', [noise([5]), i32([[1], [3]]), t([5, -6])]),
  op('TensorScatterMin', [noise([5]), i32([[1], [3]]), t([5, -6])]),
  op('ScatterNdNonAliasingAdd', [noise([5]), i32([[1], [3]]), t([5, 6])]),
  op('TensorStridedSliceUpdate', [noise([5]), i32([1]), i32([3]), i32([1]), t([9, 8])]),
  op('Pad', [
    matrix,
    i32([
      [1, 0],
      [0, 2],
    ]),
  ]),
  op('PadV2', [
    matrix,
    i32([
      [1, 0],
      [0, 2],
    ]),
    t(9),
  ]),
  op(
    'MirrorPad',
    [
      matrix,
      i32([
        [1, 1],
        [2, 0],
      ]),
    ],
    { mode: 'REFLECT' },
  ),
  op(
    'MirrorPad',
    [
      matrix,
      i32([
        [1, 1],
        [2, 0],
      ]),
    ],
    { mode: 'SYMMETRIC' },
  ),
  op(
    'MirrorPadGrad',
    [
      noise([5, 6]),
      i32([
        [1, 1],
        [2, 0],
      ]),
    ],
    { mode: 'REFLECT' },
  ),
  op('ReverseV2', [cube, i32([0, 2])]),
  op('Reverse', [matrix, bools([true, false])]),
  op('ReverseSequence', [matrix, i64([1, 2, 4])], { seq_dim: 1, batch_dim: 0 }),
  op('Roll', [matrix, i32([1, -2]), i32([0, 1])]),
  op('Diag', [t([1, 2, 3])]),
  op('DiagPart', [noise([3, 3])]),
  op('MatrixDiag', [noise([2, 3])]),
  op('MatrixDiagPart', [cube]),
  op('MatrixSetDiag', [noise([2, 3, 3]), noise([2, 3])]),
  op('MatrixDiagV3', [noise([2, 3]), i32([-1, 0]), i32(3), i32(3), t(0)]),
  op('MatrixDiagPartV3', [noise([3, 3]), i32([0, 1]), t(-1)]),
  op('MatrixSetDiagV3', [noise([3, 3]), t([9, 9]), i32(1)]),
  op('MatrixBandPart', [noise([4, 4]), i64(1), i64(0)]),
  op('SpaceToDepth', [image], { block_size: 2 }),
  op('DepthToSpace', [noise([1, 2, 2, 8])], { block_size: 2 }),
  op(
    'SpaceToBatch',
    [
      image,
      i32([
        [0, 0],
        [0, 0],
      ]),
    ],
    { block_size: 2 },
  ),
  op(
    'BatchToSpace',
    [
      noise([4, 2, 2, 1]),
      i32([
        [0, 0],
        [0, 0],
      ]),
    ],
    { block_size: 2 },
  ),
  op('SpaceToBatchND', [
    image,
    i32([2, 2]),
    i32([
      [0, 0],
      [2, 0],
    ]),
  ]),
  op('BatchToSpaceND', [
    noise([4, 2, 2, 1]),
    i32([2, 2]),
    i32([
      [0, 1],
      [0, 0],
    ]),
  ]),
  op('ExtractImagePatches', [image], {
    ksizes: [1, 2, 2, 1],
    strides: [1, 2, 2, 1],
    rates: [1, 1, 1, 1],
    padding: 'VALID',
  }),
  op('DynamicPartition', [noise([4, 2]), i32([0, 1, 0, 2])], { num_partitions: 3 }),
  op('DynamicStitch', [
    [i32([0, 2]), i32([1])],
    [t([1, 3]), t([2])],
  ]),
  op('ParallelDynamicStitch', [
    [i32([0, 2]), i32([1])],
    [t([1, 3]), t([2])],
  ]),
  op('UnravelIndex', [i32([5, 7]), i32([3, 4])]),
  op('EditDistance', [
    i64([
      [0, 0],
      [0, 1],
    ]),
    text(['a', 'b']),
    i64([1, 2]),
    i64([
      [0, 0],
      [0, 1],
    ]),
    text(['a', 'c']),
    i64([1, 2]),
  ]),
  op('PlaceholderWithDefault', [noise([2])], { shape: [2] }),
];
