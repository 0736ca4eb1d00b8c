/** Guards against numbers that are none: a loss that became NaN makes every later step worthless. */
import { ShoalError } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { constant } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { all, finite } from '../ops/math.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Variable } from '../variables/variable.js';
import { graphFor } from './graph-for.js';

const HINT =
  'A smaller learning rate, clipped gradients, or a check of the input for NaN are the usual cures; go on from the last checkpoint.';

export interface CheckFiniteOptions {
  /** What the numbers are: the name of the tensor. */
  readonly name?: string | undefined;
  /** The step at which they were fetched. */
  readonly step?: number | bigint | undefined;
}

/** Throws SHOAL_NAN when a fetched value holds NaN or infinity; says which tensor, which step, how many. */
export function checkFinite(value: Tensor | number, options: CheckFiniteOptions = {}): void {
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
  /** What the numbers are, for the message; the tensor's own name when left out. */
  readonly name?: string | undefined;
  /** The step counter, for the message. */
  readonly globalStep?: Variable | Output | undefined;
}

/**
 * `x`, after a check inside of the graph: a run that computes it fails when it holds NaN or infinity, with the
 * tensor's name, the step and the values. What the same run updates may have been updated; with
 * `tf.controlDependencies([checked], …)` around the optimizer it has not.
 */
export function assertFinite(x: Operand, options: AssertFiniteOptions = {}): Output {
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

/** `x`, checked by TensorFlow's own CheckNumerics, which tells NaN from infinity. */
export function checkNumerics(x: Operand, message: string): Output {
  return raw.checkNumerics(x, { message });
}
