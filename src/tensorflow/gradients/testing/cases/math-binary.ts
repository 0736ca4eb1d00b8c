/** Gradient cases of binary functions. */
import { complex, f, type GradientCase } from '../case.js';
import { binaryCases } from './arithmetic.js';

const KINK = 'a kink or a step';
const POSITIVE = [0.4, 2] as const;

export const binaryFunctionCases: readonly GradientCase[] = [
  ...binaryCases('Pow', POSITIVE, [-2, 2]),
  { op: 'Pow', inputs: [complex([2], POSITIVE), complex([3, 1])] },
  { op: 'Pow', order: 2, inputs: [f([2], POSITIVE), f([2, 2])] },
  {
    op: 'Pow',
    name: 'of zero and of negative numbers',
    inputs: [
      { shape: [5], values: [0, 0, 0, -2, -1] },
      { shape: [5], values: [2, 1, 0, 3, 2] },
    ],
    noNumeric: KINK,
  },
  ...binaryCases('Maximum'),
  ...binaryCases('Minimum'),
  ...['Maximum', 'Minimum'].map((op) => ({
    op,
    name: 'of equals',
    inputs: [
      { shape: [3], values: [1, 2, 3] },
      { shape: [3], values: [1, 3, 3] },
    ],
    noNumeric: KINK,
  })),
  ...binaryCases('FloorMod', [0.1, 0.9], [1.1, 1.9]),
  {
    op: 'FloorMod',
    inputs: [
      { shape: [4], values: [5.5, -5.5, 5.5, -5.5] },
      { shape: [4], values: [2, 2, -2, -2] },
    ],
  },
  ...['Mod', 'TruncateMod'].map((op) => ({
    op,
    inputs: [
      { shape: [4], values: [5.5, -5.5, 5.5, -5.5] },
      { shape: [4], values: [2, 2, -2, -2] },
    ],
    noOracle: 'TensorFlow has no gradient for it',
  })),
  ...['FloorDiv', 'TruncateDiv'].map((op) => ({
    op,
    inputs: [f([2, 3], [5.1, 5.9]), f([3], [1.1, 1.2])],
    ...(op === 'TruncateDiv'
      ? { noUnknown: 'its kernel is for integers', noNumeric: 'its kernel is for integers' }
      : {}),
  })),
  ...binaryCases('NextAfter'),
  ...binaryCases('Xlogy', [0.2, 2], POSITIVE),
  ...binaryCases('Xlog1py', [0.2, 2], POSITIVE),
  ...binaryCases('Xdivy', [0.2, 2], POSITIVE),
  ...['Xlogy', 'Xlog1py', 'Xdivy'].flatMap((op) => [
    {
      op,
      inputs: [complex([2], POSITIVE), complex([2], POSITIVE)],
      noOracle: 'TensorFlow omits the conjugate',
    },
    {
      op,
      name: 'where the factor is zero',
      inputs: [
        { shape: [3], values: [0, 0, 1] },
        { shape: [3], values: [0, 2, 3] },
      ],
      noNumeric: KINK,
    },
  ]),
  { op: 'Xlogy', order: 2, inputs: [f([2], POSITIVE), f([2, 2], POSITIVE)] },
  ...binaryCases('Atan2', [0.3, 2]),
  { op: 'Atan2', order: 2, inputs: [f([2], POSITIVE), f([2, 2], POSITIVE)] },
];
