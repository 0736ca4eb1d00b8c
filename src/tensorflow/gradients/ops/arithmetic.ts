/** Gradients of elementwise addition, multiplication and division. */
import type { Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { conjugated } from '../pieces.js';
import { type BinaryRule, binary, unbroadcastPair } from './broadcast.js';

const sum = binary((_a, _b, grad, needed) => [needed[0] ? grad : null, needed[1] ? grad : null]);

/** The two gradients have opposite signs. The sum over broadcast axes comes before the negation. */
const opposite =
  (rule: (a: Output, b: Output, grad: Output) => Output): GradientFunction =>
  (op, [grad], { needed }) => {
    if (!grad) return [null, null];
    const [a, b] = op.inputs as [Output, Output];
    const slope = rule(a, b, grad);
    const [left, right] = unbroadcastPair(a, b, needed[0] ? slope : null, needed[1] ? slope : null);
    return [left, right && raw.neg(right)];
  };

/** d(a/b)/da = 1/b and d(a/b)/db = -(a/b)/b. */
const quotient = (divide: (a: Output, b: Output) => Output): BinaryRule => {
  return (_a, b, grad, needed, op) => {
    const left = divide(grad, conjugated(b));
    return [needed[0] ? left : null, needed[1] ? raw.neg(raw.mul(left, conjugated(op.output()))) : null];
  };
};

const realQuotient = binary(quotient((a, b) => raw.realDiv(a, b)));

export const arithmeticGradients: GradientTable = {
  AccumulateNV2: (op, [grad]) => op.inputs.map(() => grad),
  Add: sum,
  AddN: (op, [grad]) => op.inputs.map(() => grad),
  AddV2: sum,
  Div: realQuotient,
  DivNoNan: binary(quotient((a, b) => raw.divNoNan(a, b))),
  Mul: binary((a, b, grad, needed) => [
    needed[0] ? raw.mul(grad, conjugated(b)) : null,
    needed[1] ? raw.mul(conjugated(a), grad) : null,
  ]),
  // A zero right operand hides even NaN and infinity on the left, also in the gradient.
  MulNoNan: binary((a, b, grad, needed) => [
    needed[0] ? raw.mulNoNan(grad, b) : null,
    needed[1] ? raw.mulNoNan(a, grad) : null,
  ]),
  Neg: (_op, [grad]) => [grad && raw.neg(grad)],
  RealDiv: realQuotient,
  SquaredDifference: opposite((a, b, grad) => raw.mul(raw.mul(grad, 2), raw.sub(a, b))),
  Sub: opposite((_a, _b, grad) => grad),
};
