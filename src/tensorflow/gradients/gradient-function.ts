/** The interface of gradient functions. */
import type { Operation, Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import type { Variable } from '../variables/variable.js';
import type { Gradient, IndexedSlices } from './indexed-slices.js';

export interface GradientOptions {
  /** The gradients of the ys. Default: ones. */
  readonly gradYs?: readonly (Operand | IndexedSlices | null)[];
  /** Treated as constants: no gradient flows through them. They may still be among the xs. Default: none. */
  readonly stopGradients?: readonly Differentiable[];
  /** The gradient of an x that no y depends on. Default: 'none' (null). */
  readonly unconnected?: 'none' | 'zero';
  /** Places gradient ops on the device of their forward op. Default: false. */
  readonly colocateGradientsWithOps?: boolean;
  /** The name scope of the gradient ops; default: `gradients`. */
  readonly name?: string;
}

export type Differentiable = Output | Variable;

export interface GradientContext {
  /** For each input, whether its gradient is needed; others are dropped. */
  readonly needed: readonly boolean[];
  /** `gradients` itself, for ops that call functions: differentiates a body's graph. */
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

/** For the few ops that propagate sparse gradients unchanged. */
export interface SliceGradientFunction {
  readonly slices: (
    op: Operation,
    grads: readonly (Gradient | undefined)[],
    context: GradientContext,
  ) => readonly (Gradient | null | undefined)[];
}

/** null: the op has no gradient, and nothing flows back through it. */
export type GradientTable = Readonly<Record<string, GradientFunction | SliceGradientFunction | null>>;
