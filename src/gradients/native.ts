/** TensorFlow's own C++ gradients, for ops without one in TypeScript. */
import { isShoalError } from '../errors/errors.js';
import type { Operation, Output } from '../graph/operation.js';
import { packOutputs, unpackOutputs } from '../native/buffer.js';
import { C } from '../native/library.js';
import { checked } from '../native/status.js';

/** The gradients of the inputs of one op; undefined when the library has no gradient for it. */
export function nativeGradient(
  op: Operation,
  grads: readonly (Output | undefined)[],
  relevant: readonly boolean[],
): (Output | null)[] | undefined {
  const { graph } = op;
  const ys = op.outputs.filter((_, i) => grads[i] !== undefined);
  const dxs = grads.filter((grad) => grad !== undefined);
  const xs = op.inputs.filter((_, i) => relevant[i]);
  if (xs.length === 0 || ys.length === 0) return op.inputs.map(() => null);
  // The walk of the library stops at its xs: fresh names for the inputs keep it to this one op.
  const results = new BigUint64Array(xs.length * 2);
  const prefix = graph.uniqueName('native');
  try {
    checked((status) =>
      C().TF_AddGradientsWithPrefix(
        graph.pointer,
        prefix,
        packOutputs(ys),
        ys.length,
        packOutputs(xs),
        xs.length,
        packOutputs(dxs),
        status,
        results,
      ),
    );
  } catch (error) {
    if (isShoalError(error, 'SHOAL_TF_NOT_FOUND') || isShoalError(error, 'SHOAL_TF_UNIMPLEMENTED'))
      return undefined;
    throw error;
  }
  const found = unpackOutputs(results).map(({ oper, index }) =>
    oper === 0n ? null : graph.operationAt(oper).output(index),
  );
  let at = 0;
  return relevant.map((isRelevant) => (isRelevant ? (found[at++] ?? null) : null));
}
