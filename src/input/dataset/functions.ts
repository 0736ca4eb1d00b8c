/** Functions of elements, traced as graph functions for the dataset ops that call them. */
import { invalid } from '../../errors/errors.js';
import { finishFunction, type GraphFunction, traceBody } from '../../graph/function.js';
import type { Output } from '../../graph/operation.js';
import { asOutput, type Operand } from '../../ops/build.js';
import type { Dataset } from './dataset.js';
import { flatten, type Spec, typesOf, unflatten } from './structure.js';

/** Dataset ops take captured tensors apart from the function. */
export interface ElementFunction {
  readonly f: GraphFunction;
  readonly captures: readonly Output[];
}

const specsOf = (input: Spec) => {
  const { outputTypes, outputShapes } = typesOf(input);
  return outputTypes.map((dtype, i) => ({ dtype, shape: outputShapes[i] ?? null }));
};

/** From an element to an element of another structure, which is found by tracing. */
export function traceMap(
  input: Spec,
  fn: (element: never) => unknown,
  name: string,
): ElementFunction & { readonly spec: Spec } {
  let spec: Spec | undefined;
  const traced = traceBody(specsOf(input), (...args) => {
    const result = (fn as (element: unknown) => unknown)(unflatten(input, args));
    const flat = flatten(result);
    spec = flat.spec;
    return flat.components;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures, spec: spec as Spec };
}

/** From an element to a scalar truth value. */
export function tracePredicate(
  input: Spec,
  fn: (element: never) => Operand<'bool'>,
  name: string,
): ElementFunction {
  const traced = traceBody(specsOf(input), (...args) => {
    const holds = asOutput((fn as (element: unknown) => Operand<'bool'>)(unflatten(input, args)), 'bool');
    if (holds.rank !== null && holds.rank !== 0) {
      throw invalid(`The predicate of ${name} must give one truth value for an element, not ${holds}`);
    }
    return holds;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures };
}

/** From an element to a dataset. */
export function traceDatasetFunction(
  input: Spec,
  fn: (element: never) => Dataset<unknown>,
  name: string,
): ElementFunction & { readonly spec: Spec } {
  let spec: Spec | undefined;
  const traced = traceBody(specsOf(input), (...args) => {
    const made = (fn as (element: unknown) => Dataset<unknown>)(unflatten(input, args));
    spec = made.spec;
    return made.variant;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures, spec: spec as Spec };
}
