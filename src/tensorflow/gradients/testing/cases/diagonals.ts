/** Gradient cases of diagonals and bands. */
import { complex, f, type GradientCase, ints } from '../case.js';

const ALIGNED = ['LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'];
const zero = { shape: [], values: [0], constant: true };
const NARROW = ints([-1, 1]);

/** TensorFlow's gradient of version 2 of an op aligns diagonals like version 3. */
const MISALIGNED = 'TensorFlow aligns the diagonals differently from the op';

export const diagonalCases: readonly GradientCase[] = [
  { op: 'Diag', inputs: [f([3])] },
  { op: 'Diag', inputs: [f([2, 3])] },
  { op: 'DiagPart', inputs: [f([3, 3])] },
  { op: 'DiagPart', inputs: [f([2, 3, 2, 3])] },
  { op: 'MatrixBandPart', inputs: [f([3, 4]), ints(1), ints(0)] },
  { op: 'MatrixBandPart', inputs: [f([2, 3, 3]), ints(-1, { dtype: 'int64' }), ints(1, { dtype: 'int64' })] },
  ...[[3], [2, 3], [0]].map((shape) => ({ op: 'MatrixDiag', inputs: [f(shape)] })),
  ...[
    [3, 3],
    [2, 3, 4],
    [4, 2],
    [0, 0],
  ].map((shape) => ({ op: 'MatrixDiagPart', inputs: [f(shape)] })),
  { op: 'MatrixDiag', inputs: [complex([3])] },
  { op: 'MatrixDiagV2', inputs: [f([2, 3]), ints(1), ints(-1), ints(-1), zero] },
  { op: 'MatrixDiagV2', inputs: [f([3, 3]), NARROW, ints(3), ints(3), zero], noOracle: MISALIGNED },
  { op: 'MatrixDiagPartV2', inputs: [f([2, 3, 4]), ints(1), zero] },
  { op: 'MatrixDiagPartV2', inputs: [f([3, 4]), NARROW, zero] },
  ...ALIGNED.flatMap((align) => [
    { op: 'MatrixDiagV3', inputs: [f([3, 3]), NARROW, ints(3), ints(3), zero], attrs: { align } },
    { op: 'MatrixDiagPartV3', inputs: [f([3, 4]), NARROW, zero], attrs: { align } },
    { op: 'MatrixSetDiagV3', inputs: [f([3, 4]), f([3, 3]), NARROW], attrs: { align } },
  ]),
  { op: 'MatrixSetDiag', inputs: [f([3, 3]), f([3])] },
  { op: 'MatrixSetDiag', inputs: [f([2, 3, 4]), f([2, 3])] },
  { op: 'MatrixSetDiagV2', inputs: [f([3, 4]), f([3]), ints(1)] },
  { op: 'MatrixSetDiagV2', inputs: [f([3, 3]), f([3, 3]), NARROW], noOracle: MISALIGNED },
];
