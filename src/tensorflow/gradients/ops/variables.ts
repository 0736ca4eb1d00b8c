/** Gradients of variable reads: they accumulate at the variable's handle. */
import type { GradientTable } from '../gradient-function.js';

export const variableGradients: GradientTable = {
  ReadVariableOp: { slices: (_op, [grad]) => [grad] },
  VarHandleOp: null,
  VarIsInitializedOp: null,
  VariableShape: null,
};
