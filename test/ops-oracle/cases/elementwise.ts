/** Elementwise ops: arithmetic, comparisons, logic, bits, special functions, casts. */
import type { DType } from '../../../src/tensorflow/tensor/dtype.js';
import { bools, noise, type OpCase, op, t } from '../case.js';

const unary = (
  names: string,
  low: number,
  high: number,
  dtypes: DType[] = ['float32', 'float64'],
): OpCase[] =>
  names.split(' ').flatMap((name) => dtypes.map((dtype) => op(name, [noise([2, 5], low, high, dtype)])));

const binary = (
  names: string,
  low: number,
  high: number,
  dtypes: DType[] = ['float32', 'float64'],
): OpCase[] =>
  names
    .split(' ')
    .flatMap((name) =>
      dtypes.map((dtype) =>
        op(name, [noise([3, 1, 2], low, high, dtype, 1), noise([4, 2], low, high, dtype, 2)]),
      ),
    );

const CASTS: [DType, DType][] = [
  ['float32', 'int32'],
  ['float32', 'float16'],
  ['float32', 'bfloat16'],
  ['float64', 'float32'],
  ['int32', 'float32'],
  ['int32', 'int64'],
  ['int64', 'bool'],
  ['bool', 'float32'],
  ['uint8', 'int8'],
  ['complex64', 'float32'],
  ['float32', 'complex128'],
  ['float16', 'float64'],
];

export const elementwise: readonly OpCase[] = [
  ...unary(
    'Abs Neg Sign Square Exp Expm1 Sin Cos Tan Tanh Sinh Cosh Atan Asinh Sigmoid Floor Ceil Rint Round',
    -3,
    3,
  ),
  ...unary('Erf Erfc Softplus Softsign Relu Relu6 Elu Selu BesselI0e BesselI1e Sigmoid Tanh', -4, 4, [
    'float32',
  ]),
  ...unary('Sqrt Rsqrt Log Log1p Lgamma Digamma Reciprocal Inv', 0.1, 4),
  ...unary('Asin Acos Atanh', -0.95, 0.95),
  ...unary('Ndtri Erfinv', 0.05, 0.9, ['float32']),
  ...unary(
    'BesselI0 BesselI1 BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1',
    0.2,
    5,
    ['float32'],
  ),
  ...unary('Dawsn Expint FresnelCos FresnelSin Spence', 0.2, 3, ['float32']),
  ...unary('Acosh', 1.1, 5),
  ...unary('Abs Neg Sign Square', -9, 9, ['int32', 'int64']),
  ...unary('Invert PopulationCount', 0, 250, ['uint8', 'int32']),
  ...unary('Neg Square Exp Conj Sqrt Log Sin', -2, 2, ['complex64']),
  ...unary('Real Imag Angle ComplexAbs', -2, 2, ['complex64']),
  op('Real', [noise([3], -1, 1, 'complex128')], { Tout: 'float64' }),
  op('ComplexAbs', [noise([3], -1, 1, 'complex128')], { Tout: 'float64' }),
  op('Complex', [noise([3]), noise([3], -1, 1, 'float32', 2)]),
  ...unary('IsNan IsInf IsFinite', -1, 1, ['float32']),
  op('IsNan', [t([Number.NaN, 1, Number.POSITIVE_INFINITY])]),
  op('IsInf', [t([Number.NaN, 1, Number.NEGATIVE_INFINITY], 'float64')]),
  op('LeakyRelu', [noise([5])], { alpha: 0.3 }),

  ...binary(
    'AddV2 Sub Mul RealDiv Div Maximum Minimum SquaredDifference Atan2 DivNoNan MulNoNan Xdivy',
    0.2,
    3,
  ),
  ...binary('Pow Xlogy Xlog1py Zeta Igamma Igammac', 1.1, 3, ['float32']),
  ...binary('Polygamma', 1, 4, ['float32']),
  ...binary('AddV2 Sub Mul FloorDiv FloorMod TruncateDiv TruncateMod Maximum Minimum', 1, 9, [
    'int32',
    'int64',
  ]),
  ...binary('FloorDiv FloorMod', -5, -0.5, ['float32']),
  ...binary('Add AddV2 Sub Mul Div', -2, 2, ['complex64', 'float16', 'bfloat16']),
  ...binary('BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift', 0, 7, ['int32', 'uint8']),
  ...binary('Equal NotEqual Greater GreaterEqual Less LessEqual', -2, 2, ['float32', 'int32']),
  op('Equal', [t(['a', 'b'], 'string'), t('a', 'string')]),
  op('ApproximateEqual', [t([1, 2]), t([1.1, 2.2])], { tolerance: 0.15 }),
  op('NextAfter', [t([1, 2], 'float64'), t([2, 1], 'float64')]),
  op('LogicalAnd', [bools([true, false]), bools(true)]),
  op('LogicalOr', [bools([true, false]), bools([false, false])]),
  op('LogicalNot', [bools([true, false])]),
  op('Betainc', [noise([4], 0.5, 3), noise([4], 0.5, 3, 'float32', 2), noise([4], 0.1, 0.9, 'float32', 3)]),
  op('Select', [bools([true, false, true]), t([1, 2, 3]), t([4, 5, 6])]),
  op('SelectV2', [bools([true, false, true]), t([[1, 2, 3]]), t([[4], [5]])]),
  op('ClipByValue', [noise([6]), t(-0.5), t(0.5)]),
  op('AddN', [[noise([3]), noise([3], -2, 2, 'float32', 2), noise([3], -2, 2, 'float32', 3)]]),
  op('Bucketize', [noise([6])], { boundaries: [-1, 0, 1] }),
  op('HistogramFixedWidth', [noise([20]), t([-2, 2]), t(5, 'int32')]),
  op('QuantizeAndDequantizeV4', [noise([6]), t(-2), t(2)]),
  op('FakeQuantWithMinMaxArgs', [noise([6], -8, 8)]),
  op('FakeQuantWithMinMaxVars', [noise([6]), t(-1), t(1)]),
  ...CASTS.map(([from, to]) =>
    op('Cast', [noise([2, 4], from === 'bool' ? 0 : -3 * (from.startsWith('u') ? 0 : 1), 3, from)], {
      DstT: to,
    }),
  ),
  op('Bitcast', [noise([3, 2], -9, 9, 'int32')], { type: 'uint8' }),
  op('DeepCopy', [noise([3])]),
  op('Identity', [noise([3])]),
  op('IdentityN', [[noise([3]), t(['a'], 'string')]]),
  op('StopGradient', [noise([3])]),
  op('PreventGradient', [noise([3])]),
  op('Snapshot', [noise([3])]),
  op('EnsureShape', [noise([2, 3])], { shape: [null, 3] }),
];
