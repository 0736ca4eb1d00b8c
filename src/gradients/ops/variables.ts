/** Gradients of reads: what flows back to a variable is attached to its handle. */
import type { GradientTable } from '../gradient-function.js';

export const variableGradients: GradientTable = {
  ReadVariableOp: { slices: (_op, [grad]) => [grad] },
  VarHandleOp: null,
  VarIsInitializedOp: null,
  VariableShape: null,
};
