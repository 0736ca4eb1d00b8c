/**
 * The gradients of ops, by op type. A gradient function is given the op and the gradients of its outputs
 * (undefined where nothing flowed back) and returns one gradient for each input, null where there is none.
 */
import type { Operation, Output } from '../graph/operation.js';
import { arithmeticGradients } from './arithmetic.js';
import { controlFlowGradients } from './control-flow.js';
import type { Gradient } from './indexed-slices.js';
import { variableGradients } from './variables.js';

export type GradientFunction = (
  op: Operation,
  grads: readonly (Output | undefined)[],
) => readonly (Gradient | null | undefined)[];

/** For the few ops that pass sparse gradients on as they are. */
export interface SliceGradientFunction {
  readonly slices: (
    op: Operation,
    grads: readonly (Gradient | undefined)[],
  ) => readonly (Gradient | null | undefined)[];
}

/** null: the op is known to have no gradient, and nothing flows back through it. */
export type GradientTable = Readonly<Record<string, GradientFunction | SliceGradientFunction | null>>;

const GRADIENTS: GradientTable = {
  ...arithmeticGradients,
  ...controlFlowGradients,
  ...variableGradients,
};

/** undefined: nothing is known of this op here. */
export function gradientOf(type: string): GradientTable[string] | undefined {
  return Object.hasOwn(GRADIENTS, type) ? GRADIENTS[type] : undefined;
}

/** The op types with a gradient in TypeScript. */
export function registeredGradients(): string[] {
  return Object.keys(GRADIENTS)
    .filter((type) => GRADIENTS[type] !== null)
    .sort();
}
