/**
 * The gradients of ops, by op type. A gradient function is given the op and the gradients of its outputs
 * (undefined where nothing flowed back) and returns one gradient for each input, null where there is none.
 * Each family of ops is a table in a file of its own.
 */
import type { Operation, Output } from '../graph/operation.js';
import { arithmeticGradients } from './arithmetic.js';
import { arrayGradients } from './arrays.js';
import { controlFlowGradients } from './control-flow.js';
import { convGradients } from './conv.js';
import { decompositionGradients } from './decompositions.js';
import { diagonalGradients } from './diagonals.js';
import { gatherGradients } from './gather.js';
import type { GradientOptions } from './gradients.js';
import type { Gradient } from './indexed-slices.js';
import { linalgGradients } from './linalg.js';
import { binaryGradients } from './math-binary.js';
import { specialGradients } from './math-special.js';
import { unaryGradients } from './math-unary.js';
import { matMulGradients } from './matmul.js';
import { nnGradients } from './nn.js';
import { randomGradients } from './random.js';
import { reductionGradients } from './reductions.js';
import { segmentGradients } from './segment.js';
import { selectGradients } from './select.js';
import { sparseGradients } from './sparse.js';
import { variableGradients } from './variables.js';

export interface GradientContext {
  /** For each input whether its gradient is wanted; what is returned for the others is dropped. */
  readonly needed: readonly boolean[];
  /** The reverse walk itself, for ops that call functions: `gradients` of a body's graph. */
  readonly gradients: (
    ys: readonly Output[],
    xs: readonly Output[],
    options?: GradientOptions,
  ) => (Gradient | null)[];
}

export type GradientFunction = (
  op: Operation,
  grads: readonly (Output | undefined)[],
  context: GradientContext,
) => readonly (Gradient | null | undefined)[];

/** For the few ops that pass sparse gradients on as they are. */
export interface SliceGradientFunction {
  readonly slices: (
    op: Operation,
    grads: readonly (Gradient | undefined)[],
    context: GradientContext,
  ) => readonly (Gradient | null | undefined)[];
}

/** null: the op is known to have no gradient, and nothing flows back through it. */
export type GradientTable = Readonly<Record<string, GradientFunction | SliceGradientFunction | null>>;

const GRADIENTS: GradientTable = {
  ...arithmeticGradients,
  ...arrayGradients,
  ...binaryGradients,
  ...controlFlowGradients,
  ...convGradients,
  ...decompositionGradients,
  ...diagonalGradients,
  ...gatherGradients,
  ...linalgGradients,
  ...matMulGradients,
  ...nnGradients,
  ...randomGradients,
  ...reductionGradients,
  ...segmentGradients,
  ...selectGradients,
  ...sparseGradients,
  ...specialGradients,
  ...unaryGradients,
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

/** The op types through which nothing flows back. */
export function opsWithoutGradient(): string[] {
  return Object.keys(GRADIENTS)
    .filter((type) => GRADIENTS[type] === null)
    .sort();
}
