/** Gradients of special functions: gamma, beta, zeta, Bessel, Fresnel and similar ones. */
import type { Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientTable } from '../gradient-function.js';
import { inputOf } from '../pieces.js';
import { binary, unbroadcast } from './broadcast.js';
import { byBoth, byInput } from './math-unary.js';

/** Returns the limit where the formula divides zero by zero. */
const unlessZero = (x: Output, limit: number, value: (safe: Output) => Output): Output => {
  const isZero = raw.equal(x, 0);
  const safe = raw.selectV2(isZero, raw.onesLike(x), x);
  return raw.selectV2(isZero, limit, value(safe));
};

const quarterTurns = (x: Output): Output => raw.mul(raw.square(x), Math.PI / 2);

/** x^(a-1)·e^-x / Γ(a): the density that the incomplete gamma function integrates. */
const gammaDensity = (a: Output, x: Output): Output =>
  raw.exp(raw.sub(raw.sub(raw.mul(raw.sub(a, 1), raw.log(x)), x), raw.lgamma(a)));

const incompleteGamma = (sign: (x: Output) => Output) =>
  binary((a, x, grad, needed) => [
    needed[0] ? sign(raw.mul(grad, raw.igammaGradA(a, x))) : null,
    needed[1] ? sign(raw.mul(grad, gammaDensity(a, x))) : null,
  ]);

export const specialGradients: GradientTable = {
  BesselI0: byInput((x, grad) => raw.mul(grad, raw.besselI1(x))),
  BesselI0e: byBoth((x, y, grad) => raw.mul(grad, raw.sub(raw.besselI1e(x), raw.mul(raw.sign(x), y)))),
  BesselI1: byBoth((x, y, grad) =>
    raw.mul(
      grad,
      unlessZero(x, 0.5, (safe) => raw.sub(raw.besselI0(safe), raw.realDiv(y, safe))),
    ),
  ),
  BesselI1e: byBoth((x, y, grad) =>
    raw.mul(
      grad,
      unlessZero(x, 0.5, (safe) =>
        raw.sub(raw.besselI0e(safe), raw.mul(y, raw.addV2(raw.sign(safe), raw.reciprocal(safe)))),
      ),
    ),
  ),
  BesselJ0: byInput((x, grad) => raw.neg(raw.mul(grad, raw.besselJ1(x)))),
  BesselJ1: byBoth((x, y, grad) =>
    raw.mul(
      grad,
      unlessZero(x, 0.5, (safe) => raw.sub(raw.besselJ0(safe), raw.realDiv(y, safe))),
    ),
  ),
  BesselK0: byInput((x, grad) => raw.neg(raw.mul(grad, raw.besselK1(x)))),
  BesselK0e: byBoth((x, y, grad) => raw.mul(grad, raw.sub(y, raw.besselK1e(x)))),
  BesselK1: byBoth((x, y, grad) => raw.neg(raw.mul(grad, raw.addV2(raw.besselK0(x), raw.realDiv(y, x))))),
  BesselK1e: byBoth((x, y, grad) =>
    raw.mul(grad, raw.sub(raw.mul(y, raw.sub(1, raw.reciprocal(x))), raw.besselK0e(x))),
  ),
  BesselY0: byInput((x, grad) => raw.neg(raw.mul(grad, raw.besselY1(x)))),
  BesselY1: byBoth((x, y, grad) => raw.mul(grad, raw.sub(raw.besselY0(x), raw.realDiv(y, x)))),
  // The parameters have no gradient in TensorFlow. The inputs have the same shape or are scalars.
  Betainc: (op, [grad]) => {
    if (!grad) return [null, null, null];
    const [a, b, x] = [inputOf(op, 0), inputOf(op, 1), inputOf(op, 2)];
    const logBeta = raw.sub(raw.addV2(raw.lgamma(a), raw.lgamma(b)), raw.lgamma(raw.addV2(a, b)));
    const powers = raw.addV2(
      raw.mul(raw.sub(b, 1), raw.log1p(raw.neg(x))),
      raw.mul(raw.sub(a, 1), raw.log(x)),
    );
    const density = raw.exp(raw.sub(powers, logBeta));
    return [null, null, unbroadcast(x, op.output(), raw.mul(grad, density))];
  },
  Dawsn: byBoth((x, y, grad) => raw.mul(grad, raw.sub(1, raw.mul(raw.mul(x, 2), y)))),
  Expint: byInput((x, grad) => raw.realDiv(raw.mul(grad, raw.exp(x)), x)),
  FresnelCos: byInput((x, grad) => raw.mul(grad, raw.cos(quarterTurns(x)))),
  FresnelSin: byInput((x, grad) => raw.mul(grad, raw.sin(quarterTurns(x)))),
  Igamma: incompleteGamma((x) => x),
  Igammac: incompleteGamma((x) => raw.neg(x)),
  Polygamma: binary((order, x, grad, needed) => [
    null,
    needed[1] ? raw.mul(grad, raw.polygamma(raw.addV2(order, 1), x)) : null,
  ]),
  Spence: byInput((x, grad) => {
    const isOne = raw.equal(x, 1);
    const safe = raw.selectV2(isOne, raw.addV2(x, 1), x);
    return raw.mul(grad, raw.selectV2(isOne, -1, raw.realDiv(raw.log(safe), raw.sub(1, safe))));
  }),
  Zeta: binary((x, q, grad, needed) => [
    null,
    needed[1] ? raw.neg(raw.mul(raw.mul(grad, x), raw.zeta(raw.addV2(x, 1), q))) : null,
  ]),
};
