/**
 * Hyperparameters of optimizers. A learning rate is a number, an output of the graph, or a function of the
 * global step. A number becomes a constant on the variable's own task, so that it is never sent over the network.
 */
import { invalid } from '../../base/errors/errors.js';
import type { Graph } from '../graph/graph.js';
import type { Output, OutputLike } from '../graph/operation.js';
import { isOutputLike } from '../ops/build.js';
import { constant } from '../ops/creation.js';
import { cast, mul } from '../ops/math.js';
import { type DType, isFloating } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import type { Variable } from '../variables/variable.js';

/** Builds the value of a hyperparameter from the global step. */
export type Schedule = (step: OutputLike) => Output;

export type ScalarLike = number | OutputLike;
export type Hyperparameter = ScalarLike | Schedule;

/** Throws if the value is not a valid hyperparameter. `allowed` restricts its range. */
export function checkHyperparameter(
  owner: string,
  name: string,
  value: unknown,
  allowed: { readonly above?: number; readonly min?: number; readonly max?: number } = {},
): void {
  if (typeof value === 'function' || isOutputLike(value)) return;
  const what = `The ${name} of ${owner}`;
  if (typeof value !== 'number') {
    throw invalid(`${what} must be a number, an output or a function of the step; got ${typeof value}`);
  }
  if (!Number.isFinite(value)) throw invalid(`${what} must be a finite number; got ${value}`);
  const { above, min, max } = allowed;
  if (above !== undefined && !(value > above)) throw invalid(`${what} must be above ${above}; got ${value}`);
  if (min !== undefined && value < min) throw invalid(`${what} must be at least ${min}; got ${value}`);
  if (max !== undefined && value > max) throw invalid(`${what} must be at most ${max}; got ${value}`);
}

/** A number as a constant, first rounded to float32 for every dtype, as TensorFlow's optimizers do. */
export const scalarConstant = (value: number, dtype: DType, name: string): Output =>
  constant(Tensor.of(Math.fround(value), { dtype }), { name });

/** The hyperparameters of one application of gradients. */
export class Hyperparameters {
  readonly #graph: Graph;
  readonly #scope: string;
  readonly #globalStep: Variable | undefined;
  readonly #rateFactor: Output | undefined;
  readonly #scheduled = new Map<Schedule, Output>();

  constructor(graph: Graph, scope: string, globalStep: Variable | undefined, rateFactor?: Output) {
    this.#graph = graph;
    this.#scope = scope;
    this.#globalStep = globalStep;
    this.#rateFactor = rateFactor;
  }

  /** The value as a scalar of this dtype, created in the current scope. */
  scalar(value: Hyperparameter, dtype: DType, name: string): Output {
    const own = this.#scalar(value, dtype, name);
    return this.#rateFactor && name === 'learning_rate' ? mul(own, cast(this.#rateFactor, dtype)) : own;
  }

  #scalar(value: Hyperparameter, dtype: DType, name: string): Output {
    if (typeof value === 'number') return scalarConstant(value, dtype, name);
    const output = typeof value === 'function' ? this.#evaluate(value, name) : value.toOutput();
    if (!isFloating(output.dtype) || (output.rank ?? 0) !== 0) {
      throw invalid(`The ${name} must be one floating-point number; got ${output}`);
    }
    return cast(output, dtype);
  }

  /** A schedule is computed once for all variables, on the device of the global step. */
  #evaluate(schedule: Schedule, name: string): Output {
    const known = this.#scheduled.get(schedule);
    if (known) return known;
    const step = this.#globalStep;
    if (!step) {
      throw invalid(`The ${name} is a function of the step, but there is no global step`, {
        hint: 'Pass one: minimize(loss, { globalStep: tf.getOrCreateGlobalStep() }).',
      });
    }
    const made = this.#graph.nameScope(this.#scope, () =>
      this.#graph.nameScope(name, () => this.#graph.colocateWith(step.handle, () => schedule(step))),
    );
    this.#scheduled.set(schedule, made);
    return made;
  }
}
