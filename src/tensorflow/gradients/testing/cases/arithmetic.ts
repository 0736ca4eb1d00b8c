/** Gradient cases of elementwise arithmetic. */
import { complex, f, f32, type GradientCase, type OpCase } from '../case.js';

/** Shapes for binary ops: equal, broadcast in one or both directions, scalars, empty. */
const SHAPES: readonly (readonly [readonly number[], readonly number[]])[] = [
  [
    [2, 3],
    [2, 3],
  ],
  [[2, 3], [3]],
  [
    [2, 1, 3],
    [4, 1],
  ],
  [[], [2, 2]],
  [[], []],
  [
    [0, 3],
    [1, 3],
  ],
  [[1], []],
];

export const binaryCases = (
  op: string,
  left?: readonly [number, number],
  right: readonly [number, number] | undefined = left,
): GradientCase[] => [
  ...SHAPES.map(([a, b]) => ({ op, inputs: [f(a, left), f(b, right)] })),
  { op, inputs: [f32([2, 3], left), f32([1, 3], right)] },
];

export const arithmeticCases: readonly GradientCase[] = [
  ...['Add', 'AddV2', 'Sub', 'Mul', 'SquaredDifference'].flatMap((op) => binaryCases(op)),
  ...['Add', 'AddV2', 'Sub', 'Mul'].map((op) => ({ op, inputs: [complex([2]), complex([3, 1])] })),
  {
    op: 'SquaredDifference',
    inputs: [complex([2]), complex([3, 1])],
    noNumeric: 'the kernel multiplies by the conjugate, which has no complex derivative',
  },
  { op: 'Mul', order: 2, inputs: [f([2, 3]), f([3])] },
  ...binaryCases('RealDiv', [-2, 2], [0.5, 2]),
  { op: 'RealDiv', inputs: [complex([2]), complex([3, 1], [0.5, 2])] },
  ...binaryCases('Div', [-2, 2], [0.5, 2]),
  ...binaryCases('DivNoNan', [-2, 2], [0.5, 2]),
  {
    op: 'DivNoNan',
    name: 'by zero',
    inputs: [f([3]), { shape: [3], values: [0, 1, 0] }],
    noNumeric: 'a step at zero',
  },
  { op: 'DivNoNan', order: 2, inputs: [f([2, 3]), f([3], [0.5, 2])] },
  {
    op: 'RealDiv',
    name: 'by zero',
    inputs: [
      { shape: [3], values: [0, 1, -1] },
      { shape: [3], values: [0, 0, 0] },
    ],
    noNumeric: 'a pole',
  },
  ...binaryCases('MulNoNan', [-2, 2], [0.5, 2]),
  {
    op: 'MulNoNan',
    name: 'of non-finite values',
    inputs: [
      { shape: [3], values: [Number.NaN, Number.POSITIVE_INFINITY, 2] },
      { shape: [3], values: [0, 0, 3] },
    ],
    noNumeric: 'not finite',
  },
  { op: 'Neg', inputs: [f([2, 3])] },
  { op: 'Neg', inputs: [complex([2])] },
  { op: 'SquaredDifference', order: 2, inputs: [f([2, 3]), f([3])] },
  { op: 'RealDiv', order: 2, inputs: [f([2, 3]), f([3], [0.5, 2])] },
  ...['AddN', 'AccumulateNV2'].flatMap((op) => [
    { op, inputs: [[f([2, 3]), f([2, 3]), f([2, 3])]], attrs: accumulated(op, [2, 3]) },
    { op, inputs: [[f([])]], attrs: accumulated(op, []) },
    { op, inputs: [[f([0, 2]), f([0, 2])]], attrs: accumulated(op, [0, 2]) },
  ]),
];

function accumulated(op: string, shape: readonly number[]): NonNullable<OpCase['attrs']> {
  return op === 'AccumulateNV2' ? { shape } : {};
}
