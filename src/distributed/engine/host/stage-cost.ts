/** The threads that run a stage: its cost decides, as far as it is known before the first run. */
import { isPure } from '../../../tensorflow/graph/op-def.js';
import type { Operation } from '../../../tensorflow/graph/operation.js';
import { toleratesSignals } from '../../../tensorflow/session/inline.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';

/**
 * 'tiny': may run on the thread that asks for it. 'light': on a thread of the pool, without TensorFlow's threads.
 * 'heavy': may wait, or has enough work for several threads.
 */
export type StageCost = 'tiny' | 'light' | 'heavy';

const MOST_OPS = 400;
const TINY_BYTES = 256 * 1024;
const LIGHT_BYTES = 4 << 20;
/** Counts for a size that is not known: a usual batch. */
const UNKNOWN_SIZE = 128;

/** Ops with state that neither wait nor use anything but variables and random numbers. */
const QUICK =
  /^(VarHandleOp|ReadVariableOp|VarIsInitializedOp|Assign\w*VariableOp|Resource(Apply|SparseApply|Gather|Scatter)\w*|Random\w*|TruncatedNormal|Multinomial)$/;

/** The cost of the ops with everything they depend on. */
export function costOf(ops: Iterable<Operation>): StageCost {
  const seen = new Set(ops);
  let bytes = 0;
  let isTiny = seen.size > 0;
  for (const op of seen) {
    if (!QUICK.test(op.type) && !isPure(op)) return 'heavy';
    isTiny &&= toleratesSignals(op);
    for (const { dtype, shape } of op.type === 'Const' ? [] : op.outputs) {
      if (dtype === 'resource') continue;
      if (shape === null) return 'heavy';
      isTiny &&= !shape.includes(null);
      bytes += (DTYPES[dtype].size || 64) * shape.reduce<number>((n, dim) => n * (dim ?? UNKNOWN_SIZE), 1);
    }
    for (const input of op.inputs) seen.add(input.op);
    for (const input of op.controlInputs) seen.add(input);
    if (seen.size > MOST_OPS || bytes > LIGHT_BYTES) return 'heavy';
  }
  return isTiny && bytes <= TINY_BYTES ? 'tiny' : 'light';
}
