/**
 * Gradients of unary functions. A complex gradient is multiplied by the conjugate of the derivative, which
 * for an analytic function is the derivative at the conjugate.
 */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { type DType, isComplex, isFloating } from '../../tensor/dtype.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { conjugated, inputOf, single } from '../pieces.js';
import { unbroadcastPair } from './broadcast.js';

type UnaryRule = (at: Output, grad: Output) => Output;

/** The derivative is a function of the input. */
export const byInput = (rule: UnaryRule): GradientFunction =>
  single((op, grad) => [rule(conjugated(inputOf(op, 0)), grad)]);

/** The derivative is a function of the output. */
export const byOutput = (rule: UnaryRule): GradientFunction =>
  single((op, grad) => [rule(conjugated(op.output()), grad)]);

/** The derivative is a function of input and output. */
export const byBoth = (rule: (x: Output, y: Output, grad: Output) => Output): GradientFunction =>
  single((op, grad) => [rule(conjugated(inputOf(op, 0)), conjugated(op.output()), grad)]);

const { PI } = Math;

const scaledGauss = (scale: number, factor: number): UnaryRule => {
  return (at, grad) => raw.mul(raw.mul(grad, scale), raw.exp(raw.mul(raw.square(at), factor)));
};

const reciprocal = single((op, grad) => [raw.reciprocalGrad(op.output(), grad)]);

/** The gradient of -b·conj(a)², where a is the reciprocal and b its incoming gradient. */
const reciprocalGrad = single((op, grad) => {
  const [a, b] = [conjugated(inputOf(op, 0)), inputOf(op, 1)];
  return [raw.mul(raw.mul(raw.mul(conjugated(grad), -2), b), a), raw.reciprocalGrad(a, grad)];
});

const castBack = single((op, grad) => {
  const from = inputOf(op, 0).dtype;
  return [hasGradient(from) && hasGradient(grad.dtype) ? raw.cast(grad, { dstT: from }) : null];
});

const hasGradient = (dtype: DType): boolean => isFloating(dtype) || isComplex(dtype);

const toComplex = (x: Output, like: Output): Output => raw.cast(x, { dstT: like.dtype });

const realOf = (op: Operation, x: Output): Output =>
  raw.real(x, { tout: inputOf(op, 0).dtype as 'float32' | 'float64' });
const imagOf = (op: Operation, x: Output): Output =>
  raw.imag(x, { tout: inputOf(op, 0).dtype as 'float32' | 'float64' });

const complexOf = (re: Output, im: Output): Output =>
  raw.complex(re, im, { tout: re.dtype === 'float64' ? 'complex128' : 'complex64' });

export const unaryGradients: GradientTable = {
  Abs: byInput((x, grad) => raw.mul(grad, raw.sign(x))),
  Acos: byInput((x, grad) => raw.neg(raw.realDiv(grad, raw.sqrt(raw.sub(1, raw.square(x)))))),
  Acosh: byOutput((y, grad) => raw.realDiv(grad, raw.sinh(y))),
  // The angle changes with a step perpendicular to the number, in inverse proportion to its magnitude.
  Angle: single((op, grad) => [raw.realDiv(complexOf(raw.zerosLike(grad), grad), raw.conj(inputOf(op, 0)))]),
  Asin: byInput((x, grad) => raw.realDiv(grad, raw.sqrt(raw.sub(1, raw.square(x))))),
  Asinh: byOutput((y, grad) => raw.realDiv(grad, raw.cosh(y))),
  Atan: byInput((x, grad) => raw.realDiv(grad, raw.addV2(raw.square(x), 1))),
  Atanh: byInput((x, grad) => raw.realDiv(grad, raw.sub(1, raw.square(x)))),
  Cast: castBack,
  Ceil: null,
  Complex: (op, [grad], { needed }) => {
    if (!grad) return [null, null];
    const [re, im] = op.inputs as [Output, Output];
    return unbroadcastPair(re, im, needed[0] ? realOf(op, grad) : null, needed[1] ? imagOf(op, grad) : null);
  },
  ComplexAbs: single((op, grad) => {
    const x = inputOf(op, 0);
    return [raw.mul(toComplex(raw.divNoNan(grad, op.output()), x), x)];
  }),
  Conj: single((_op, grad) => [raw.conj(grad)]),
  Cos: byInput((x, grad) => raw.neg(raw.mul(grad, raw.sin(x)))),
  Cosh: byInput((x, grad) => raw.mul(grad, raw.sinh(x))),
  Digamma: byInput((x, grad) => raw.mul(grad, raw.polygamma(1, x))),
  Erf: byInput(scaledGauss(2 / Math.sqrt(PI), -1)),
  Erfc: byInput(scaledGauss(-2 / Math.sqrt(PI), -1)),
  Erfinv: byOutput(scaledGauss(Math.sqrt(PI) / 2, 1)),
  Exp: byOutput((y, grad) => raw.mul(grad, y)),
  Expm1: byInput((x, grad) => raw.mul(grad, raw.exp(x))),
  Floor: null,
  Imag: single((_op, grad) => [complexOf(raw.zerosLike(grad), grad)]),
  Inv: reciprocal,
  InvGrad: reciprocalGrad,
  IsFinite: null,
  IsInf: null,
  IsNan: null,
  Lgamma: byInput((x, grad) => raw.mul(grad, raw.digamma(x))),
  Log: byInput((x, grad) => raw.realDiv(grad, x)),
  Log1p: byInput((x, grad) => raw.realDiv(grad, raw.addV2(x, 1))),
  Ndtri: byOutput(scaledGauss(Math.sqrt(2 * PI), 0.5)),
  Real: single((op, grad) => [toComplex(grad, inputOf(op, 0))]),
  Reciprocal: reciprocal,
  ReciprocalGrad: reciprocalGrad,
  Rint: null,
  Round: null,
  Rsqrt: single((op, grad) => [raw.rsqrtGrad(op.output(), grad)]),
  // The gradient of -b·conj(a)³/2.
  RsqrtGrad: single((op, grad) => {
    const [a, b] = [conjugated(inputOf(op, 0)), inputOf(op, 1)];
    return [raw.mul(raw.mul(raw.mul(conjugated(grad), -1.5), b), raw.square(a)), raw.rsqrtGrad(a, grad)];
  }),
  Sign: single((op) => [raw.zerosLike(inputOf(op, 0))]),
  Sin: byInput((x, grad) => raw.mul(grad, raw.cos(x))),
  Sinh: byInput((x, grad) => raw.mul(grad, raw.cosh(x))),
  Sqrt: single((op, grad) => [raw.sqrtGrad(op.output(), grad)]),
  // The gradient of b / (2·conj(a)), which is the op's output.
  SqrtGrad: single((op, grad) => {
    const share = raw.realDiv(grad, inputOf(op, 0));
    return [raw.neg(raw.mul(conjugated(share), op.output())), raw.mul(share, 0.5)];
  }),
  Square: byInput((x, grad) => raw.mul(grad, raw.mul(x, 2))),
  Tan: byOutput((y, grad) => raw.mul(grad, raw.addV2(raw.square(y), 1))),
  Tanh: byOutput((y, grad) => raw.tanhGrad(y, grad)),
  // The gradient of b·(1 - a²).
  TanhGrad: single((op, grad) => {
    const [a, b] = [conjugated(inputOf(op, 0)), conjugated(inputOf(op, 1))];
    return [raw.mul(raw.mul(raw.mul(grad, -2), b), a), raw.tanhGrad(a, grad)];
  }),
};
