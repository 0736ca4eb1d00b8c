/** Gradient cases of unary functions. */
import { complex, f, f32, type GradientCase } from '../case.js';

type Range = readonly [number, number];

/** The range in which each function is smooth. */
const REAL: Readonly<Record<string, Range>> = {
  Abs: [0.2, 2],
  Acos: [-0.9, 0.9],
  Acosh: [1.2, 3],
  Asin: [-0.9, 0.9],
  Asinh: [-2, 2],
  Atan: [-2, 2],
  Atanh: [-0.9, 0.9],
  Cos: [-3, 3],
  Cosh: [-2, 2],
  Digamma: [0.5, 4],
  Erf: [-2, 2],
  Erfc: [-2, 2],
  Erfinv: [-0.9, 0.9],
  Exp: [-2, 2],
  Expm1: [-2, 2],
  Inv: [0.5, 2],
  Lgamma: [0.5, 4],
  Log: [0.3, 3],
  Log1p: [-0.5, 3],
  Ndtri: [0.1, 0.9],
  Reciprocal: [-2, -0.5],
  Rsqrt: [0.3, 3],
  Sign: [0.2, 2],
  Sin: [-3, 3],
  Sinh: [-2, 2],
  Sqrt: [0.3, 3],
  Square: [-2, 2],
  Tan: [-1.2, 1.2],
  Tanh: [-2, 2],
};

const COMPLEX = [
  ...['Acos', 'Acosh', 'Asin', 'Asinh', 'Atan', 'Atanh', 'Cos', 'Cosh', 'Exp', 'Expm1', 'Inv', 'Log'],
  ...['Log1p', 'Reciprocal', 'Rsqrt', 'Sin', 'Sinh', 'Sqrt', 'Square', 'Tan', 'Tanh'],
];

const TWICE = ['Cos', 'Erf', 'Exp', 'Log', 'Lgamma', 'Reciprocal', 'Rsqrt', 'Sqrt', 'Square', 'Tan', 'Tanh'];

/** Points at which a function has a kink, a pole or the end of its domain. */
const EDGES: Readonly<Record<string, readonly number[]>> = {
  Abs: [0, -1],
  Acos: [1, -1],
  Atanh: [1, 0],
  Log: [0, -1],
  Reciprocal: [0],
  Rsqrt: [0, -1],
  Sign: [0, -1],
  Sqrt: [0, -1],
};

/** The runtime's gradient ops, with inputs (value, gradient). */
const HELPERS: Readonly<Record<string, Range>> = {
  InvGrad: [0.5, 2],
  ReciprocalGrad: [0.5, 2],
  RsqrtGrad: [0.5, 2],
  SqrtGrad: [0.5, 2],
  TanhGrad: [-0.9, 0.9],
};

const COMPLEX_TANH_GRAD = 'complex tanh';

export const unaryCases: readonly GradientCase[] = [
  ...Object.entries(REAL).flatMap(([op, range]) => [
    ...[[2, 3], [], [0, 2]].map((shape) => ({ op, inputs: [f(shape, range)] })),
    { op, inputs: [f32([3], range)] },
  ]),
  ...COMPLEX.map((op) => ({ op, inputs: [complex([3], [0.2, 0.7])] })),
  ...TWICE.map((op) => ({ op, order: 2 as const, inputs: [f([3], REAL[op])] })),
  ...Object.entries(EDGES).map(([op, values]) => ({
    op,
    name: 'at the edge',
    inputs: [{ shape: [values.length], values }],
    noNumeric: 'a kink or a pole',
  })),
  ...Object.entries(HELPERS).flatMap(([op, range]) => [
    { op, inputs: [f([2, 3], range), f([2, 3])] },
    { op, inputs: [complex([2], range), complex([2])], name: op === 'TanhGrad' ? COMPLEX_TANH_GRAD : '' },
  ]),
  ...['Floor', 'Ceil', 'Round', 'Rint'].map((op) => ({
    op,
    inputs: [{ shape: [4], values: [0.3, 1.7, -2.6, 3.2] }],
  })),
  ...['float32', 'float64', 'bfloat16', 'int32', 'complex128'].map((to) => ({
    op: 'Cast',
    inputs: [f([2, 3])],
    attrs: { DstT: to },
    ...(to === 'float64' || to === 'complex128' ? {} : { noNumeric: `${to} is too coarse for differences` }),
  })),
  { op: 'Cast', inputs: [complex([2])], attrs: { DstT: 'float64' } },
  ...['Real', 'Imag', 'Angle'].flatMap((op) => [
    { op, inputs: [complex([2, 3])], attrs: { Tout: 'float64' } },
    { op, inputs: [complex([])], attrs: { Tout: 'float64' } },
    { op, inputs: [{ shape: [2], dtype: 'complex64' as const }], attrs: { Tout: 'float32' } },
  ]),
  { op: 'Conj', inputs: [complex([2, 3])] },
  { op: 'ComplexAbs', inputs: [complex([2, 3])], attrs: { Tout: 'float64' } },
  {
    op: 'ComplexAbs',
    name: 'at zero',
    inputs: [{ shape: [1], dtype: 'complex128', values: [0, 0] }],
    attrs: { Tout: 'float64' },
    noNumeric: 'a kink',
  },
  ...[
    [
      [2, 3],
      [2, 3],
    ],
    [[2, 3], [3]],
    [[], [2]],
    [[0, 1], [1]],
  ].map(([re, im]) => ({ op: 'Complex', inputs: [f(re), f(im)], attrs: { Tout: 'complex128' } })),
];
