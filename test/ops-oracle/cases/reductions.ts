/** Reductions, scans, argmax and argmin, segments. */
import type { DType } from '../../../src/tensorflow/tensor/dtype.js';
import { bools, i32, i64, noise, type OpCase, op, t } from '../case.js';

const reduce = (names: string, dtypes: DType[] = ['float32', 'float64', 'int32']): OpCase[] =>
  names
    .split(' ')
    .flatMap((name) =>
      dtypes.flatMap((dtype) => [
        op(name, [noise([2, 3, 4], 1, 4, dtype), i32([0, 2])]),
        op(name, [noise([2, 3, 4], 1, 4, dtype), i32(-1)], { keep_dims: true }),
      ]),
    );

const segment = (names: string): OpCase[] =>
  names.split(' ').map((name) => op(name, [noise([5, 2]), i32([0, 0, 1, 3, 3])]));
const unsorted = (names: string): OpCase[] =>
  names.split(' ').map((name) => op(name, [noise([5, 2], 0.5, 2), i32([3, 0, 1, 0, 3]), i32(4)]));
const sparseSegment = (names: string): OpCase[] =>
  names.split(' ').map((name) => op(name, [noise([6, 2]), i32([0, 2, 5, 1]), i32([0, 0, 1, 2])]));

export const reductions: readonly OpCase[] = [
  ...reduce('Sum Mean Prod Max Min'),
  op('Sum', [noise([0, 3]), i32([0])]),
  op('Mean', [noise([4], -1, 1, 'complex64'), i32([0])]),
  op('EuclideanNorm', [noise([2, 3]), i32([1])]),
  op('All', [
    bools([
      [true, false],
      [true, true],
    ]),
    i32([1]),
  ]),
  op(
    'Any',
    [
      bools([
        [true, false],
        [false, false],
      ]),
      i32([1]),
    ],
    { keep_dims: true },
  ),
  op('ArgMax', [noise([3, 4]), i32(1)]),
  op('ArgMax', [noise([3, 4]), i32(0)], { output_type: 'int32' }),
  op('ArgMin', [noise([3, 4], -9, 9, 'int32'), i32(-1)]),
  op('Cumsum', [noise([3, 4]), i32(1)]),
  op('Cumsum', [noise([3, 4]), i32(0)], { exclusive: true, reverse: true }),
  op('Cumprod', [noise([3, 4]), i32(1)], { exclusive: true }),
  op('CumulativeLogsumexp', [noise([5]), i32(0)]),
  op('L2Loss', [noise([3, 4])]),
  op('Bincount', [i32([0, 1, 1, 3]), i32(5), t([1, 2, 3, 4])]),
  op('DenseBincount', [i32([0, 1, 1, 3]), i32(5), t([], 'int64')]),
  ...segment('SegmentSum SegmentMean SegmentProd SegmentMax SegmentMin'),
  ...unsorted('UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin'),
  ...sparseSegment('SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN'),
  op('SparseSegmentSumWithNumSegments', [noise([6, 2]), i32([0, 2]), i32([0, 2]), i32(4)]),
  op('TopKV2', [noise([2, 6]), i32(3)]),
  op('NthElement', [noise([2, 6]), i32(2)], { reverse: true }),
  op('InTopKV2', [noise([3, 5]), i32([0, 3, 4]), i32(2)]),
  op('Unique', [i32([3, 1, 3, 2, 1])]),
  op('UniqueV2', [t([1, 2, 1]), i64([0])], { out_idx: 'int64' }),
  op('UniqueWithCounts', [i64([3, 1, 3, 2, 1])]),
  op('ListDiff', [i32([1, 2, 3, 4]), i32([2, 4])]),
  op('Where', [
    bools([
      [true, false],
      [true, true],
    ]),
  ]),
  op('LowerBound', [t([[1, 3, 5, 7]]), t([[0, 3, 6, 9]])]),
  op('UpperBound', [t([[1, 3, 5, 7]]), t([[0, 3, 6, 9]])], { out_type: 'int64' }),
];
