/** Gradients of broadcasting binary functions other than sums and products. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { isComplex } from '../../tensor/dtype.js';
import type { GradientTable } from '../gradient-function.js';
import { conjugated } from '../pieces.js';
import { type BinaryRule, binary } from './broadcast.js';

/** Maximum and minimum: the selected side gets the gradient, the left one if both are equal. */
const chosen = (isLeft: (a: Output, b: Output) => Output): BinaryRule => {
  return (a, b, grad, needed) => {
    const left = isLeft(a, b);
    return [needed[0] ? raw.selectV2(left, grad, 0) : null, needed[1] ? raw.selectV2(left, 0, grad) : null];
  };
};

/** log(x) where it is defined, else 0: a power of zero or of a negative number has no gradient there. */
function safeLog(x: Output): Output {
  const isFine = isComplex(x.dtype) ? raw.notEqual(x, 0) : raw.greater(x, 0);
  return raw.selectV2(isFine, raw.log(raw.selectV2(isFine, x, 1)), 0);
}

const power: BinaryRule = (a, b, grad, needed, op) => {
  const [x, y] = [conjugated(a), conjugated(b)];
  return [
    needed[0] ? raw.mul(raw.mul(grad, y), raw.pow(x, raw.sub(y, 1))) : null,
    needed[1] ? raw.mul(raw.mul(grad, conjugated(op.output())), safeLog(x)) : null,
  ];
};

/** 1 where the factor is not zero: the other operand matters only there. */
const isCounted = (x: Output): Output => raw.cast(raw.notEqual(x, 0), { dstT: x.dtype });

const xlog = (log: (x: Output, y: Output) => Output, shifted: (y: Output) => Output): BinaryRule => {
  return (a, b, grad, needed) => {
    const [x, y] = [conjugated(a), conjugated(b)];
    return [
      needed[0] ? raw.mul(grad, log(isCounted(x), y)) : null,
      needed[1] ? raw.mul(grad, raw.xdivy(x, shifted(y))) : null,
    ];
  };
};

/** a - b·q, where q is the rounded quotient, which is constant almost everywhere. */
const remainder: BinaryRule = (a, b, grad, needed, op: Operation) => [
  needed[0] ? grad : null,
  needed[1] ? raw.mul(grad, raw.realDiv(raw.sub(op.output(), a), b)) : null,
];

export const binaryGradients: GradientTable = {
  ApproximateEqual: null,
  Atan2: binary((y, x, grad, needed) => {
    const share = raw.realDiv(grad, raw.addV2(raw.square(y), raw.square(x)));
    return [needed[0] ? raw.mul(x, share) : null, needed[1] ? raw.neg(raw.mul(y, share)) : null];
  }),
  Equal: null,
  FloorDiv: null,
  FloorMod: binary((a, b, grad, needed) => [
    needed[0] ? grad : null,
    needed[1] ? raw.neg(raw.mul(grad, raw.floorDiv(a, b))) : null,
  ]),
  Greater: null,
  GreaterEqual: null,
  Less: null,
  LessEqual: null,
  LogicalAnd: null,
  LogicalNot: null,
  LogicalOr: null,
  Maximum: binary(chosen((a, b) => raw.greaterEqual(a, b))),
  Minimum: binary(chosen((a, b) => raw.lessEqual(a, b))),
  Mod: binary(remainder),
  NextAfter: binary((_a, _b, grad, needed) => [
    needed[0] ? grad : null,
    needed[1] ? raw.zerosLike(grad) : null,
  ]),
  NotEqual: null,
  Pow: binary(power),
  TruncateDiv: null,
  TruncateMod: binary(remainder),
  Xdivy: binary((a, b, grad, needed) => {
    const [x, y] = [conjugated(a), conjugated(b)];
    return [
      needed[0] ? raw.mul(grad, raw.xdivy(isCounted(x), y)) : null,
      needed[1] ? raw.neg(raw.mul(grad, raw.xdivy(x, raw.square(y)))) : null,
    ];
  }),
  Xlog1py: binary(
    xlog(
      (x, y) => raw.xlog1py(x, y),
      (y) => raw.addV2(y, 1),
    ),
  ),
  Xlogy: binary(
    xlog(
      (x, y) => raw.xlogy(x, y),
      (y) => y,
    ),
  ),
};
