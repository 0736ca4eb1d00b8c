/** Element-wise arithmetic, comparisons and logic with broadcasting; matrix products; reductions. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { type DType, isComplex, isFloating } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import { asOutput, isOutputLike, type Operand } from './build.js';
import * as raw from './generated/index.js';
import { keywords, withOpOptions } from './keywords.js';

export type Unary = <D extends DType = DType>(x: Operand<D>, options?: OpOptions) => Output<D>;
export type Binary = <D extends DType = DType>(
  a: Operand<D>,
  b: Operand<D>,
  options?: OpOptions,
) => Output<D>;
export type Comparison = (a: Operand, b: Operand, options?: OpOptions) => Output<'bool'>;

export const add: Binary = (a, b, options) => raw.addV2(a, b, options) as never;
export const sub: Binary = (a, b, options) => raw.sub(a, b, options) as never;
export const mul: Binary = (a, b, options) => raw.mul(a, b, options) as never;
/** Floating-point division. */
export const div: Binary = (a, b, options) => raw.realDiv(a, b, options) as never;
export const floorDiv: Binary = (a, b, options) => raw.floorDiv(a, b, options) as never;
export const mod: Binary = (a, b, options) => raw.floorMod(a, b, options) as never;
/** a / b, and 0 where b is 0. */
export const divNoNan: Binary = (a, b, options) => raw.divNoNan(a, b, options) as never;
export const pow: Binary = (a, b, options) => raw.pow(a, b, options) as never;
export const maximum: Binary = (a, b, options) => raw.maximum(a, b, options) as never;
export const minimum: Binary = (a, b, options) => raw.minimum(a, b, options) as never;
export const squaredDifference: Binary = (a, b, options) => raw.squaredDifference(a, b, options) as never;
export const atan2: Binary = (a, b, options) => raw.atan2(a, b, options) as never;

export const neg: Unary = (x, options) => raw.neg(x, options) as never;
export const abs = (x: Operand, options?: OpOptions): Output => {
  const output = asOutput(x);
  return isComplex(output.dtype)
    ? raw.complexAbs(output, { tout: output.dtype === 'complex64' ? 'float32' : 'float64', ...options })
    : raw.abs(output, options);
};
export const sign: Unary = (x, options) => raw.sign(x, options) as never;
export const square: Unary = (x, options) => raw.square(x, options) as never;
export const sqrt: Unary = (x, options) => raw.sqrt(x, options) as never;
export const rsqrt: Unary = (x, options) => raw.rsqrt(x, options) as never;
export const reciprocal: Unary = (x, options) => raw.reciprocal(x, options) as never;
export const exp: Unary = (x, options) => raw.exp(x, options) as never;
export const expm1: Unary = (x, options) => raw.expm1(x, options) as never;
export const log: Unary = (x, options) => raw.log(x, options) as never;
export const log1p: Unary = (x, options) => raw.log1p(x, options) as never;
export const sin: Unary = (x, options) => raw.sin(x, options) as never;
export const cos: Unary = (x, options) => raw.cos(x, options) as never;
export const tan: Unary = (x, options) => raw.tan(x, options) as never;
export const asin: Unary = (x, options) => raw.asin(x, options) as never;
export const acos: Unary = (x, options) => raw.acos(x, options) as never;
export const atan: Unary = (x, options) => raw.atan(x, options) as never;
export const sinh: Unary = (x, options) => raw.sinh(x, options) as never;
export const cosh: Unary = (x, options) => raw.cosh(x, options) as never;
export const tanh: Unary = (x, options) => raw.tanh(x, options) as never;
export const floor: Unary = (x, options) => raw.floor(x, options) as never;
export const ceil: Unary = (x, options) => raw.ceil(x, options) as never;
/** Rounds to nearest, ties to even. */
export const round: Unary = (x, options) => raw.round(x, options) as never;
export const erf: Unary = (x, options) => raw.erf(x, options) as never;
export const lgamma: Unary = (x, options) => raw.lgamma(x, options) as never;

export const equal: Comparison = (a, b, options) => raw.equal(a, b, options) as never;
export const notEqual: Comparison = (a, b, options) => raw.notEqual(a, b, options) as never;
export const greater: Comparison = (a, b, options) => raw.greater(a, b, options);
export const greaterEqual: Comparison = (a, b, options) => raw.greaterEqual(a, b, options);
export const less: Comparison = (a, b, options) => raw.less(a, b, options);
export const lessEqual: Comparison = (a, b, options) => raw.lessEqual(a, b, options);
export const logicalAnd: Comparison = (a, b, options) => raw.logicalAnd(a, b, options);
export const logicalOr: Comparison = (a, b, options) => raw.logicalOr(a, b, options);
export const logicalNot = (x: Operand, options?: OpOptions): Output<'bool'> => raw.logicalNot(x, options);
export const logicalXor: Comparison = (a, b, options) => {
  const [x, y] = [asOutput(a, 'bool'), asOutput(b, 'bool')];
  return raw.notEqual(x, y, options) as never;
};
export const isNan = (x: Operand, options?: OpOptions): Output<'bool'> => raw.isNan(x, options);
export const isInf = (x: Operand, options?: OpOptions): Output<'bool'> => raw.isInf(x, options);
export const finite = (x: Operand, options?: OpOptions): Output<'bool'> => raw.isFinite(x, options);

/** `a` where the condition is true, else `b`; all three broadcast. */
export const where: (condition: Operand, a: Operand, b: Operand, options?: OpOptions) => Output = (
  condition,
  a,
  b,
  options,
) => raw.selectV2(condition, a, b, options);

export const clipByValue = <D extends DType>(
  x: Operand<D>,
  low: Operand<D>,
  high: Operand<D>,
  options: OpOptions = {},
): Output<D> => withOpOptions(x, options, () => maximum(minimum(x, high), low) as Output<D>);

export function cast<D extends DType>(x: Operand, dtype: D, options?: OpOptions): Output<D> {
  const output = asOutput(x);
  return (output.dtype === dtype ? output : raw.cast(output, { dstT: dtype, ...options })) as Output<D>;
}

export interface MatMulOptions extends OpOptions {
  /** Whether to transpose `a`; default: false. */
  readonly transposeA?: boolean;
  /** Whether to transpose `b`; default: false. */
  readonly transposeB?: boolean;
}

/** The matrix product of the innermost two axes; other axes broadcast. */
export function matMul<D extends DType = DType>(
  a: Operand<D>,
  b: Operand<D>,
  options: OrNull<MatMulOptions> = {},
): Output<D> {
  const { transposeA = false, transposeB = false, ...rest } = withoutNull<MatMulOptions>(options);
  const [x, y] = isOutputLike(a)
    ? [a.toOutput(), asOutput(b, a.toOutput().dtype)]
    : isOutputLike(b)
      ? [asOutput(a, b.toOutput().dtype), b.toOutput()]
      : [asOutput(a), asOutput(b)];
  if (x.rank === 2 && y.rank === 2) return raw.matMul(x, y, { transposeA, transposeB, ...rest }) as Output<D>;
  // The batch op takes adjoints: the adjoint of the conjugate is the transpose.
  const [left, right] = isComplex(x.dtype)
    ? [transposeA ? raw.conj(x) : x, transposeB ? raw.conj(y) : y]
    : [x, y];
  return raw.batchMatMulV2(left, right, { adjX: transposeA, adjY: transposeB, ...rest }) as Output<D>;
}

export interface ReduceOptions extends OpOptions {
  /** Axes to reduce; negative ones count from the end. Default: all. */
  readonly axis?: number | readonly number[] | Output;
  /** Whether reduced axes remain, with size 1; default: false. */
  readonly keepDims?: boolean;
  /** TensorFlow's name of `keepDims`; default: that. */
  readonly keepdims?: boolean;
}

type Reducer = (x: Operand, axis: Operand, attrs: { keepDims?: boolean } & OpOptions) => Output;

/** The axes of a reduction as a tensor. */
export function reductionAxes(x: Output, axis: ReduceOptions['axis']): Operand {
  if (axis !== undefined) {
    if (typeof axis === 'object' && !Array.isArray(axis)) return axis as Output;
    const axes = Array.isArray(axis) ? (axis as number[]) : [axis as number];
    for (const one of axes) {
      if (x.rank !== null && (one < -x.rank || one >= x.rank)) {
        throw invalid(`Axis ${one} is out of range for ${x}`);
      }
    }
    return Tensor.of(Array.isArray(axis) ? Int32Array.from(axes) : (axes[0] as number), { dtype: 'int32' });
  }
  if (x.rank !== null) return Tensor.of(Int32Array.from({ length: x.rank }, (_, i) => i));
  return raw.range(asOutput(0, 'int32'), raw.rank(x), asOutput(1, 'int32'));
}

/** The options, or TensorFlow's positional arguments `axis` and `keepdims`. */
export type ReduceFunction = <D extends DType = DType>(
  x: Operand<D>,
  options?: OrNull<ReduceOptions> | ReduceOptions['axis'] | null,
  keepDims?: boolean | null,
) => Output<D>;

const reduce =
  (reducer: Reducer): ReduceFunction =>
  (x, options = {}, kept = null) => {
    const { axis, keepDims, ...rest } = reduceOptions(options, kept);
    const output = asOutput(x);
    return reducer(output, reductionAxes(output, axis), {
      keepDims: keepDims ?? false,
      ...rest,
    }) as never;
  };

/** The options of a reduction; TensorFlow's positional `axis, keepdims` are accepted, too. */
function reduceOptions(
  options: OrNull<ReduceOptions> | ReduceOptions['axis'] | null,
  kept?: boolean | null,
): ReduceOptions {
  const isAxis = typeof options === 'number' || Array.isArray(options) || isOutputLike(options);
  const { axis, keepDims, keepdims, ...rest } = (
    isAxis ? { axis: options } : (options ?? {})
  ) as ReduceOptions;
  const keeps = keepDims ?? keepdims ?? kept;
  return { ...rest, ...(axis != null && { axis }), ...(keeps != null && { keepDims: keeps }) };
}

export const sum: ReduceFunction = reduce((x, axis, attrs) => raw.sum(x, axis, attrs));
export const mean: ReduceFunction = reduce((x, axis, attrs) => raw.mean(x, axis, attrs));
export const prod: ReduceFunction = reduce((x, axis, attrs) => raw.prod(x, axis, attrs));
export const max: ReduceFunction = reduce((x, axis, attrs) => raw.max(x, axis, attrs));
export const min: ReduceFunction = reduce((x, axis, attrs) => raw.min(x, axis, attrs));
export const all: ReduceFunction = reduce((x, axis, attrs) => raw.all(x, axis, attrs));
export const any: ReduceFunction = reduce((x, axis, attrs) => raw.any(x, axis, attrs));

/** log(sum(exp(x))), without overflow. */
export function logSumExp(
  x: Operand,
  given: OrNull<ReduceOptions> | ReduceOptions['axis'] | null = {},
): Output {
  const options = reduceOptions(given);
  const output = asOutput(x);
  const peak = max(output, { ...options, keepDims: true });
  const safe = raw.stopGradient(where(finite(peak), peak, raw.zerosLike(peak)));
  const kept = add(log(sum(exp(sub(output, safe)), { axis: options.axis, keepDims: true })), safe);
  return options.keepDims ? kept : sum(kept, { axis: options.axis });
}

/** Mean and variance over the given axes. */
export function moments(
  x: Operand,
  given: OrNull<ReduceOptions> | ReduceOptions['axis'] | null = {},
): { mean: Output; variance: Output } {
  const options = reduceOptions(given);
  const output = asOutput(x);
  const center = mean(output, { axis: options.axis, keepDims: true });
  const variance = mean(squaredDifference(output, raw.stopGradient(center)), options);
  return { mean: options.keepDims ? center : mean(output, options), variance };
}

type IndexType = 'int32' | 'int64';
type IndexKeywords = { axis: number; dtype: IndexType; outputType: IndexType };

export const argMax = keywords<IndexKeywords>()(
  1,
  ['axis', ['dtype', 'outputType']],
  (x: Operand, axis = 0, dtype: IndexType = 'int64', options?: OpOptions): Output =>
    raw.argMax(x, Tensor.of(axis, { dtype: 'int32' }), { outputType: dtype, ...options }),
);

export const argMin = keywords<IndexKeywords>()(
  1,
  ['axis', ['dtype', 'outputType']],
  (x: Operand, axis = 0, dtype: IndexType = 'int64', options?: OpOptions): Output =>
    raw.argMin(x, Tensor.of(axis, { dtype: 'int32' }), { outputType: dtype, ...options }),
);

export interface CumulateOptions extends OpOptions {
  /** The axis to accumulate along; default: 0. */
  readonly axis?: number;
  /** Whether to exclude the element itself; default: false. */
  readonly exclusive?: boolean;
  /** Whether to accumulate from the end; default: false. */
  readonly reverse?: boolean;
}

const cumulate = (op: typeof raw.cumsum) =>
  keywords<CumulateOptions>()(1, [], (x: Operand, given: CumulateOptions | number = {}): Output => {
    const { axis = 0, ...rest } = typeof given === 'number' ? { axis: given } : given;
    return op(x, Tensor.of(axis, { dtype: 'int32' }), rest);
  });

export const cumsum = cumulate(raw.cumsum);
export const cumprod = cumulate(raw.cumprod);

/** The sum of tensors of the same shape. */
export const addN = (inputs: readonly Operand[], options?: OpOptions): Output =>
  inputs.length === 1 ? asOutput(inputs[0] as Operand) : raw.addN(inputs, options);

/** Half the sum of squares. */
export const l2Loss = (x: Operand, options?: OpOptions): Output => raw.l2Loss(x, options);

/** The Euclidean norm. */
export function norm(x: Operand, options: OrNull<ReduceOptions> = {}): Output {
  const output = asOutput(x);
  const squares = isFloating(output.dtype) ? square(output) : square(abs(output));
  return sqrt(sum(squares, options));
}
