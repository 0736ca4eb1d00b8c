/** Checks for NaN and infinity: a NaN loss makes all later steps worthless. */

import { ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { constant } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { all, finite } from '../ops/math.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Variable } from '../variables/variable.js';
import { graphFor } from './graph-for.js';

const HINT =
  'Lower the learning rate, clip gradients, or check the input for NaN; then resume from the last checkpoint.';

export interface CheckFiniteOptions {
  /** The name of the tensor, for the message; default: 'A tensor'. */
  readonly name?: string;
  /** The step at which it was fetched, for the message; default: none. */
  readonly step?: number | bigint;
}

/** Throws SHOAL_NAN if a fetched value contains NaN or infinity; the message has tensor, step and counts. */
export function checkFinite(value: Tensor | number, given: OrNull<CheckFiniteOptions> = {}): void {
  const options = withoutNull<CheckFiniteOptions>(given);
  const numbers = typeof value === 'number' ? [value] : numbersOf(value);
  let nan = 0;
  let infinite = 0;
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i] as number;
    if (Number.isNaN(number)) nan += 1;
    else if (!Number.isFinite(number)) infinite += 1;
  }
  if (nan + infinite === 0) return;
  const { name = 'A tensor', step } = options;
  const at = step === undefined ? '' : ` at step ${step}`;
  const whole = typeof value === 'number' || value.size === 1;
  const what = whole
    ? `is ${nan > 0 ? 'NaN' : numbers[0]}`
    : `has ${nan} NaN and ${infinite} infinite of ${numbers.length} values`;
  throw new ShoalError('SHOAL_NAN', `${name} ${what}${at}`, { op: options.name, hint: HINT });
}

function numbersOf(value: Tensor): ArrayLike<number> {
  if (value.dtype === 'float32' || value.dtype === 'float64')
    return value.data as Float32Array | Float64Array;
  const list: unknown = value.toArray();
  const flat = Array.isArray(list) ? list.flat(Number.POSITIVE_INFINITY) : [list];
  return flat.filter((item): item is number => typeof item === 'number');
}

export interface AssertFiniteOptions {
  /** The name for the message. Default: the tensor's name. */
  readonly name?: string;
  /** The step counter, for the message; default: none. */
  readonly globalStep?: Variable | Output;
}

/**
 * Returns `x` with a check inside the graph: a run that computes it fails if it contains NaN or infinity, with the
 * tensor's name, the step and the values in the message. Variables may already be updated by that run; to prevent
 * this, build the optimizer within `tf.controlDependencies([checked], …)`.
 */
export function assertFinite(x: Operand, given: OrNull<AssertFiniteOptions> = {}): Output {
  const options = withoutNull<AssertFiniteOptions>(given);
  const output = asOutput(x);
  const { name = output.name, globalStep } = options;
  const graph = graphFor(output);
  return graph.nameScope('assert_finite', () => {
    const step = globalStep ? [constant('at step'), globalStep.toOutput()] : [];
    const check = raw.assert(all(finite(output)), [constant(`${name} is not finite:`), output, ...step], {
      summarize: 8,
    });
    return graph.controlDependencies([check], () => raw.identity(output));
  });
}

/** Returns `x` checked by TensorFlow's CheckNumerics, which distinguishes NaN from infinity. */
export function checkNumerics(x: Operand, message: string): Output {
  return raw.checkNumerics(x, { message });
}
