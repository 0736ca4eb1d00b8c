/** Which stages run on the thread that asks for them: those whose ops cannot wait and handle little data. */
import { isPure } from '../../graph/op-def.js';
import type { Operation } from '../../graph/operation.js';
import { DTYPES } from '../../tensor/dtype.js';

const MOST_OPS = 400;
const MOST_BYTES = 256 * 1024;

/** Ops with state that neither wait nor use anything but variables and random numbers. */
const QUICK =
  /^(VarHandleOp|ReadVariableOp|VarIsInitializedOp|Assign\w*VariableOp|Resource(Apply|SparseApply|Gather|Scatter)\w*|Random\w*|TruncatedNormal|Multinomial)$/;

/** Whether the ops, with everything they depend on, are cheap enough to block the event loop for them. */
export function isCheap(ops: Iterable<Operation>): boolean {
  const seen = new Set(ops);
  let bytes = 0;
  for (const op of seen) {
    if (!QUICK.test(op.type) && !isPure(op)) return false;
    for (const { dtype, shape } of op.outputs) {
      if (dtype === 'resource') continue;
      if (shape === null) return false;
      bytes +=
        (DTYPES[dtype].size || 64) *
        shape.reduce<number>((n, dim) => n * (dim ?? Number.POSITIVE_INFINITY), 1);
    }
    for (const input of op.inputs) seen.add(input.op);
    for (const input of op.controlInputs) seen.add(input);
    if (seen.size > MOST_OPS || !(bytes <= MOST_BYTES)) return false;
  }
  return seen.size > 0;
}
