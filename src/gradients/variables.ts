/** Gradients of reads: what flows back to a variable is attached to its handle. */
import type { Output } from '../graph/operation.js';
import { concat, reshape } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import { Tensor } from '../tensor/tensor.js';
import { IndexedSlices } from './indexed-slices.js';
import type { GradientTable } from './registry.js';

export const variableGradients: GradientTable = {
  ReadVariableOp: { slices: (_op, [grad]) => [grad] },
  Identity: { slices: (_op, [grad]) => [grad] },
  VarHandleOp: null,
  VarIsInitializedOp: null,
  VariableShape: null,

  ResourceGather: (op, [grad]) => {
    const [handle, indices] = op.inputs as [Output, Output];
    if (!grad) return [null, null];
    return [rowGradient(grad, indices, raw.variableShape(handle, { outType: 'int64' })), null];
  },
};

/** The gradient of rows picked from a table: one slice for each index. */
export function rowGradient(grad: Output, indices: Output, denseShape: Output): IndexedSlices {
  const flat = reshape(indices, [-1]);
  const rowShape = raw.stridedSlice(
    denseShape,
    Tensor.of(Int32Array.of(1)),
    Tensor.of(Int32Array.of(0)),
    Tensor.of(Int32Array.of(1)),
    { endMask: 1 },
  );
  const count = raw.expandDims(
    raw.size(indices, { outType: denseShape.dtype as 'int32' | 'int64' }),
    Tensor.of(0, { dtype: 'int32' }),
  );
  return new IndexedSlices(reshape(grad, concat([count, rowShape], 0)), flat, denseShape);
}
