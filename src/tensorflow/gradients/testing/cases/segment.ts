/** Gradient cases of segment sums. */
import type { Output } from '../../../graph/operation.js';
import { build } from '../../../ops/build.js';
import * as raw from '../../../ops/generated/index.js';
import { Variable } from '../../../variables/variable.js';
import { f, f32, type GradientCase, ints, type Program } from '../case.js';

const KINK = 'a kink';
const sorted: readonly GradientCase[] = [
  'SegmentSum',
  'SegmentMean',
  'SegmentMax',
  'SegmentMin',
  'SegmentProd',
].flatMap((op): GradientCase[] => [
  { op, inputs: [f([5, 2]), ints([0, 0, 1, 3, 3])] },
  { op, inputs: [f([4]), ints([0, 0, 0, 1], { dtype: 'int64' })] },
  { op, inputs: [f32([3, 1, 2]), ints([0, 1, 1])] },
]);

const unsorted: readonly GradientCase[] = [
  'UnsortedSegmentSum',
  'UnsortedSegmentMax',
  'UnsortedSegmentMin',
  'UnsortedSegmentProd',
].flatMap((op): GradientCase[] => [
  {
    op,
    inputs: [f([5, 2]), ints([2, 0, -1, 3, 0]), ints(5)],
    ...(/Max|Min/.test(op)
      ? { noNumeric: 'an empty segment contains the most extreme number of the dtype' }
      : {}),
  },
  { op, inputs: [f([2, 2]), ints([1, 0, 0, 1], { shape: [2, 2], dtype: 'int64' }), ints(2)] },
  { op, inputs: [f([2, 2, 3]), ints([1, 0, -1, 1], { shape: [2, 2] }), ints(2)] },
  { op, inputs: [f([0, 2]), ints([]), ints(2)] },
]);

const special: readonly GradientCase[] = [
  ...['SegmentMax', 'SegmentMin'].map((op) => ({
    op,
    name: 'equal values share',
    inputs: [{ ...f([4]), values: [1, 1, 2, 2] }, ints([0, 0, 0, 0])],
    noNumeric: KINK,
  })),
  ...['UnsortedSegmentMax', 'UnsortedSegmentMin'].map((op) => ({
    op,
    name: 'equal values share',
    inputs: [{ ...f([4]), values: [1, 1, 2, 2] }, ints([0, 0, 0, 0]), ints(1)],
    noNumeric: KINK,
  })),
  {
    op: 'SegmentProd',
    name: 'zeros',
    inputs: [{ ...f([6]), values: [0, 2, 3, 0, 0, 4] }, ints([0, 0, 0, 1, 1, 1])],
  },
  {
    op: 'UnsortedSegmentProd',
    name: 'zeros',
    inputs: [{ ...f([6]), values: [0, 2, 3, 0, 0, 4] }, ints([0, 0, 0, 1, 1, 1]), ints(2)],
  },
];

const COMBINERS = ['Sum', 'Mean', 'SqrtN'] as const;

const sparse: readonly GradientCase[] = COMBINERS.flatMap((combiner): GradientCase[] => {
  const [rows, segments] = [ints([0, 3, 3, 1]), ints([0, 0, 1, 3])];
  const plain = `SparseSegment${combiner}`;
  const counted = `${plain}WithNumSegments`;
  return [
    { op: plain, inputs: [f([4, 2]), rows, segments] },
    { op: plain, inputs: [f([4]), ints([1, 0], { dtype: 'int64' }), ints([0, 2], { dtype: 'int64' })] },
    { op: plain, name: 'of a variable', inputs: [f([4, 2]), rows, segments], build: ofTable(plain) },
    {
      op: plain,
      name: 'of a square',
      order: 2,
      inputs: [f([4, 2]), rows, segments],
      build: ([x, ...rest]) => [build(plain, [raw.square(x as Output), ...rest]).output()],
      noOracle: 'TensorFlow cannot differentiate it twice',
    },
    { op: counted, inputs: [f([4, 2]), rows, segments, ints(6)] },
    {
      op: counted,
      inputs: [f([4, 2]), ints([]), ints([]), ints(2)],
      noOracle: "TensorFlow's kernel leaves its output uninitialized if there are no rows",
    },
    {
      op: counted,
      name: 'of a variable',
      inputs: [f([4, 2]), rows, segments, ints(6)],
      build: ofTable(counted),
    },
  ];
});

function ofTable(type: string): (inputs: readonly Output[]) => Program {
  return ([start, ...rest]) => {
    const table = Variable.create({ initialValue: start as Output, name: 'table' });
    const combined = build(type, [table, ...rest]).output();
    return { outputs: [combined], xs: [table], init: [table.initializer] };
  };
}

export const segmentCases: readonly GradientCase[] = [...sorted, ...unsorted, ...special, ...sparse];
