/** Traces functions of elements into graph functions for dataset ops. */
import { invalid } from '../../../base/errors/errors.js';
import { finishFunction, type GraphFunction, traceBody } from '../../../tensorflow/graph/function.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { asOutput, type Operand } from '../../../tensorflow/ops/build.js';
import { flattenElement, type Spec, typesOf, unflattenElement } from './structure.js';

/** Dataset ops take the captured tensors separately from the function. */
export interface ElementFunction {
  readonly f: GraphFunction;
  readonly captures: readonly Output[];
}

/** What dataset ops take and make. */
interface DatasetOutput {
  readonly variant: Output<'variant'>;
  readonly spec: Spec;
}

const specsOf = (input: Spec) => {
  const { outputTypes, outputShapes } = typesOf(input);
  return outputTypes.map((dtype, i) => ({ dtype, shape: outputShapes[i] ?? null }));
};

/** A function from an element to another element, whose structure is found by tracing. */
export function traceMap(
  input: Spec,
  fn: (element: never) => unknown,
  name: string,
): ElementFunction & { readonly spec: Spec } {
  let spec: Spec | undefined;
  const traced = traceBody(specsOf(input), (...args) => {
    const result = (fn as (element: unknown) => unknown)(unflattenElement(input, args));
    const flat = flattenElement(result);
    spec = flat.spec;
    return flat.components;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures, spec: spec as Spec };
}

/** A function from an element to a boolean scalar. */
export function tracePredicate(
  input: Spec,
  fn: (element: never) => Operand<'bool'>,
  name: string,
): ElementFunction {
  const traced = traceBody(specsOf(input), (...args) => {
    const holds = asOutput(
      (fn as (element: unknown) => Operand<'bool'>)(unflattenElement(input, args)),
      'bool',
    );
    if (holds.rank !== null && holds.rank !== 0) {
      throw invalid(`The predicate of ${name} must return a boolean scalar, not ${holds}`);
    }
    return holds;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures };
}

/** A function from an element to a dataset, whose variant and structure it returns. */
export function traceDatasetFunction(
  input: Spec,
  fn: (element: never) => DatasetOutput,
  name: string,
): ElementFunction & { readonly spec: Spec } {
  let spec: Spec | undefined;
  const traced = traceBody(specsOf(input), (...args) => {
    const made = (fn as (element: unknown) => DatasetOutput)(unflattenElement(input, args));
    spec = made.spec;
    return made.variant;
  });
  const f = finishFunction(traced, { name });
  return { f, captures: f.captures, spec: spec as Spec };
}
