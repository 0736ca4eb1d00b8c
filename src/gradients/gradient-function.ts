/** What a gradient is given and returns. */
import type { Operation, Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import type { Variable } from '../variables/variable.js';
import type { Gradient, IndexedSlices } from './indexed-slices.js';

export interface GradientOptions {
  /** The gradients that flow into the ys; ones when left out. */
  readonly gradYs?: readonly (Operand | IndexedSlices | null)[];
  /** Treated as constants: nothing flows back through them. Their own gradients can still be asked for. */
  readonly stopGradients?: readonly Differentiable[];
  /** What an x that no y depends on gets. */
  readonly unconnected?: 'none' | 'zero';
  /** Puts the ops of a gradient on the device of the op that it is of. */
  readonly colocateGradientsWithOps?: boolean;
  readonly name?: string;
}

export type Differentiable = Output | Variable;

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
