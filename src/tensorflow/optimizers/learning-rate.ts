/**
 * Learning-rate schedules. Each function returns a schedule, which builds the rate from the global step. Pass the
 * schedule to an optimizer, or call it with a step:
 * `exponentialDecay(0.1, { decaySteps: 1000, decayRate: 0.96 })(globalStep)`.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output, OutputLike } from '../graph/operation.js';
import { constant } from '../ops/creation.js';
import {
  add,
  cast,
  ceil,
  cos,
  div,
  equal,
  exp,
  floor,
  greater,
  less,
  log,
  maximum,
  minimum,
  mul,
  neg,
  pow,
  sub,
  where,
} from '../ops/math.js';
import { type DType, isInteger } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import {
  checkHyperparameter,
  type Hyperparameter,
  type ScalarLike,
  type Schedule,
} from './hyperparameters.js';

export interface DecayOptions {
  /** The number of steps per application of `decayRate`. */
  readonly decaySteps: number;
  readonly decayRate: number;
  /** Changes the rate only at multiples of `decaySteps`. Default: false. */
  readonly staircase?: boolean;
}

/** rate · decayRate^(step / decaySteps). */
export function exponentialDecay(rate: ScalarLike, given: OrNull<DecayOptions>): Schedule {
  const options = withoutNull<DecayOptions>(given);
  const periods = decayPeriods('exponentialDecay', rate, options);
  return (step) => mul(asRate(rate), pow(options.decayRate, periods(step)));
}

/** rate · e^(−decayRate · step / decaySteps). */
export function naturalExpDecay(rate: ScalarLike, given: OrNull<DecayOptions>): Schedule {
  const options = withoutNull<DecayOptions>(given);
  const periods = decayPeriods('naturalExpDecay', rate, options);
  return (step) => mul(asRate(rate), pow(exp(neg(asRate(options.decayRate))), periods(step)));
}

/** rate / (1 + decayRate · step / decaySteps). */
export function inverseTimeDecay(rate: ScalarLike, given: OrNull<DecayOptions>): Schedule {
  const options = withoutNull<DecayOptions>(given);
  const periods = decayPeriods('inverseTimeDecay', rate, options);
  return (step) => div(asRate(rate), add(1, mul(options.decayRate, periods(step))));
}

export interface PolynomialDecayOptions {
  readonly decaySteps: number;
  /** The rate after `decaySteps`; default: 0.0001. */
  readonly endLearningRate?: number;
  /** The power of the polynomial; default: 1, linear. */
  readonly power?: number;
  /** Restarts with a longer period instead of staying at `endLearningRate`. Default: false. */
  readonly cycle?: boolean;
}

/** (rate − endLearningRate) · (1 − step / decaySteps)^power + endLearningRate. */
export function polynomialDecay(rate: ScalarLike, given: OrNull<PolynomialDecayOptions>): Schedule {
  const options = withoutNull<PolynomialDecayOptions>(given);
  const { decaySteps, endLearningRate = 0.0001, power = 1, cycle = false } = options;
  check('polynomialDecay', rate, { decaySteps });
  return (at) => {
    const step = asRate(at);
    const rounds = cycle ? where(equal(step, 0), 1, ceil(div(step, decaySteps))) : undefined;
    const length = rounds ? mul(decaySteps, rounds) : decaySteps;
    const done = div(rounds ? step : minimum(step, decaySteps), length);
    return add(mul(sub(asRate(rate), endLearningRate), pow(sub(1, done), power)), endLearningRate);
  };
}

/** values[0] up to and including step boundaries[0], then values[1] up to and including boundaries[1], and so on. */
export function piecewiseConstant(boundaries: readonly number[], values: readonly ScalarLike[]): Schedule {
  if (values.length !== boundaries.length + 1 || boundaries.length === 0) {
    throw invalid(
      `piecewiseConstant needs one more value than boundaries; got ${values.length} and ${boundaries.length}`,
    );
  }
  const rising = boundaries.every((boundary, i) => i === 0 || boundary > (boundaries[i - 1] as number));
  if (!rising) throw invalid(`The boundaries of piecewiseConstant must increase: ${boundaries.join(', ')}`);
  for (const value of values) checkHyperparameter('piecewiseConstant', 'value', value);
  return (at) => {
    const step = at.toOutput();
    return boundaries.reduce<Output>(
      (rate, boundary, i) =>
        where(greater(step, boundaryLike(boundary, step.dtype)), asRate(values[i + 1] as ScalarLike), rate),
      asRate(values[0] as ScalarLike),
    );
  };
}

export interface CosineDecayOptions {
  readonly decaySteps: number;
  /** The final rate as a fraction of the initial rate. Default: 0. */
  readonly alpha?: number;
}

/** Half a cosine wave, from the rate down to alpha · rate. */
export function cosineDecay(rate: ScalarLike, options: OrNull<CosineDecayOptions>): Schedule {
  const { decaySteps, alpha = 0 } = withoutNull<CosineDecayOptions>(options);
  check('cosineDecay', rate, { decaySteps });
  return (step) => {
    const done = div(minimum(asRate(step), decaySteps), decaySteps);
    return mul(asRate(rate), add(mul(1 - alpha, halfWave(done)), alpha));
  };
}

export interface CosineDecayRestartsOptions {
  readonly firstDecaySteps: number;
  /** The length of each period relative to the previous one. Default: 2. */
  readonly tMul?: number;
  /** The initial rate of each period relative to the previous one. Default: 1. */
  readonly mMul?: number;
  /** The minimum rate, as a fraction of the initial rate; default: 0. */
  readonly alpha?: number;
}

/** Cosine decay with restarts (SGDR). */
export function cosineDecayRestarts(rate: ScalarLike, given: OrNull<CosineDecayRestartsOptions>): Schedule {
  const options = withoutNull<CosineDecayRestartsOptions>(given);
  const { firstDecaySteps, tMul = 2, mMul = 1, alpha = 0 } = options;
  check('cosineDecayRestarts', rate, { decaySteps: firstDecaySteps });
  checkHyperparameter('cosineDecayRestarts', 'tMul', tMul, { min: 1 });
  return (step) => {
    const elapsed = div(asRate(step), firstDecaySteps);
    const { period, done } = tMul === 1 ? equalPeriods(elapsed) : growingPeriods(elapsed, tMul);
    const wave = mul(mul(0.5, pow(mMul, period)), add(1, cos(mul(Math.PI, done))));
    return mul(asRate(rate), add(mul(1 - alpha, wave), alpha));
  };
}

export interface WarmUpOptions {
  readonly steps: number;
  /** The initial rate. Default: 0. */
  readonly from?: number;
}

/** Rises linearly to the value of `after` at step `steps`, then follows `after`. */
export function warmUp(after: Hyperparameter, options: OrNull<WarmUpOptions>): Schedule {
  const { steps, from = 0 } = withoutNull<WarmUpOptions>(options);
  checkHyperparameter('warmUp', 'learning rate', after);
  checkHyperparameter('warmUp', 'number of steps', steps, { above: 0 });
  checkHyperparameter('warmUp', 'first rate', from);
  return (at) => {
    const step = at.toOutput();
    const later = maximum(step, boundaryLike(steps, step.dtype));
    const rate = typeof after === 'function' ? after(later) : asRate(after);
    const ramp = add(from, mul(sub(rate, from), div(asRate(step), steps)));
    return where(less(asRate(step), steps), ramp, rate);
  };
}

const equalPeriods = (elapsed: Output) => {
  const period = floor(elapsed);
  return { period, done: sub(elapsed, period) };
};

/** The length of period i is tMul^i, in units of the first. */
function growingPeriods(elapsed: Output, tMul: number) {
  const period = floor(div(log(sub(1, mul(elapsed, sub(1, asRate(tMul))))), log(asRate(tMul))));
  const length = pow(tMul, period);
  const before = div(sub(1, length), sub(1, asRate(tMul)));
  return { period, done: div(sub(elapsed, before), length) };
}

const halfWave = (done: Output): Output => mul(0.5, add(1, cos(mul(Math.PI, done))));

/** The number of decay periods so far. */
function decayPeriods(owner: string, rate: ScalarLike, options: DecayOptions): (step: OutputLike) => Output {
  const { decaySteps, decayRate, staircase = false } = options;
  check(owner, rate, { decaySteps });
  checkHyperparameter(owner, 'decay rate', decayRate);
  return (step) => {
    const periods = div(asRate(step), decaySteps);
    return staircase ? floor(periods) : periods;
  };
}

function check(owner: string, rate: ScalarLike, { decaySteps }: { readonly decaySteps: number }): void {
  checkHyperparameter(owner, 'learning rate', rate);
  checkHyperparameter(owner, 'number of decay steps', decaySteps, { above: 0 });
}

/** A rate or a step, in the dtype of rates. */
const asRate = (value: ScalarLike): Output<'float32'> =>
  typeof value === 'number'
    ? constant<'float32'>(Tensor.of(value, { dtype: 'float32' }))
    : cast(value, 'float32');

/** A boundary in the dtype of the step, rounded down for integer steps. */
const boundaryLike = (boundary: number, dtype: DType): Output =>
  constant(Tensor.of(isInteger(dtype) ? Math.floor(boundary) : boundary, { dtype }));
