/** Gradient cases of special functions. */
import { f, f32, type GradientCase } from '../case.js';
import { binaryCases } from './arithmetic.js';

const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  BesselI0: [-2, 2],
  BesselI0e: [0.2, 2],
  BesselI1: [0.2, 2],
  BesselI1e: [0.2, 2],
  BesselJ0: [0.2, 4],
  BesselJ1: [0.2, 4],
  BesselK0: [0.3, 3],
  BesselK0e: [0.3, 3],
  BesselK1: [0.3, 3],
  BesselK1e: [0.3, 3],
  BesselY0: [0.3, 3],
  BesselY1: [0.3, 3],
  Dawsn: [-2, 2],
  Expint: [0.3, 3],
  FresnelCos: [-2, 2],
  FresnelSin: [-2, 2],
  Spence: [1.2, 3],
};

const AT_LIMIT: Readonly<Record<string, number>> = { BesselI1: 0, BesselI1e: 0, BesselJ1: 0, Spence: 1 };

const POSITIVE = [0.5, 3] as const;

export const specialCases: readonly GradientCase[] = [
  ...Object.entries(RANGES).flatMap(([op, range]) => [
    ...[[2, 3], [], [0]].map((shape) => ({ op, inputs: [f(shape, range)] })),
    { op, inputs: [f32([3], range)] },
  ]),
  ...Object.entries(AT_LIMIT).map(([op, value]) => ({
    op,
    name: 'at the limit',
    inputs: [{ shape: [1], values: [value] }],
    tolerance: 1e-4,
    ...(op.startsWith('BesselI') ? { noOracle: 'TensorFlow gives twice the limit' } : {}),
  })),
  ...binaryCases('Igamma', POSITIVE).map((one) => ({ ...one, tolerance: 1e-5 })),
  ...binaryCases('Igammac', POSITIVE).map((one) => ({ ...one, tolerance: 1e-5 })),
  ...binaryCases('Zeta', [1.5, 3]).map(fixedFirst),
  ...[
    [
      [2, 3],
      [2, 3],
    ],
    [[3], [2, 3]],
    [[], [2]],
  ].map(([order = [], x = []]) => ({
    op: 'Polygamma',
    inputs: [
      { shape: order, values: new Array(order.reduce((a, b) => a * b, 1)).fill(2), constant: true },
      f(x, [0.5, 3]),
    ],
  })),
  ...[
    [
      [2, 3],
      [2, 3],
    ],
    [[], []],
    [[0], [0]],
    [[], [3]],
    [[3], []],
  ].map(([parameters, x]) => ({
    op: 'Betainc',
    inputs: [
      { ...f(parameters, POSITIVE), constant: true },
      { ...f(parameters, POSITIVE), constant: true },
      f(x, [0.1, 0.9]),
    ],
  })),
];

/** TensorFlow has no gradient of the first argument. */
function fixedFirst(one: GradientCase): GradientCase {
  const [first, ...rest] = one.inputs;
  return { ...one, inputs: [{ ...first, constant: true }, ...rest] };
}
