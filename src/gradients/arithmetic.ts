/** Gradients of elementwise arithmetic with two operands. */
import type { Operation, Output } from '../graph/operation.js';
import * as raw from '../ops/generated/index.js';
import { div, mul, neg, square, sub } from '../ops/math.js';
import { isComplex } from '../tensor/dtype.js';
import { unbroadcastPair } from './broadcast.js';
import type { GradientFunction, GradientTable } from './registry.js';

/** A complex derivative acts on a gradient by its conjugate. */
export const conjugate = (x: Output): Output => (isComplex(x.dtype) ? raw.conj(x) : x);

/** A binary op whose gradients are given for the broadcast shape. */
const binary =
  (rule: (a: Output, b: Output, grad: Output, op: Operation) => [Output, Output]): GradientFunction =>
  (op, [grad]) => {
    if (!grad) return [null, null];
    const [a, b] = op.inputs as [Output, Output];
    return unbroadcastPair(a, b, ...rule(a, b, grad, op));
  };

const addGradient = binary((_a, _b, grad) => [grad, grad]);

export const arithmeticGradients: GradientTable = {
  Add: addGradient,
  AddV2: addGradient,
  Sub: binary((_a, _b, grad) => [grad, neg(grad)]),
  Mul: binary((a, b, grad) => [mul(grad, conjugate(b)), mul(conjugate(a), grad)]),
  RealDiv: binary((a, b, grad) => {
    const [x, y] = [conjugate(a), conjugate(b)];
    return [div(grad, y), mul(grad, div(div(neg(x), y), y))];
  }),
  SquaredDifference: binary((a, b, grad) => {
    const twice = mul(mul(grad, 2), sub(a, b));
    return [twice, neg(twice)];
  }),
  Square: (op, [grad]) => [grad ? mul(grad, mul(conjugate(op.inputs[0] as Output), 2)) : null],
  Neg: (_op, [grad]) => [grad ? neg(grad) : null],
  Sqrt: (op, [grad]) => [grad ? raw.sqrtGrad(op.output(), grad) : null],
  AddN: (op, [grad]) => op.inputs.map(() => grad),
  Reciprocal: (op, [grad]) => [grad ? neg(mul(grad, square(op.output()))) : null],
  AccumulateNV2: (op, [grad]) => op.inputs.map(() => grad),
};
