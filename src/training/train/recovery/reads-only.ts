/**
 * Whether a run is known to change nothing: it fetches only plain reads of variables. A snapshot need not wait for such
 * a run, and must not block a saver that reads the global step.
 */
import { isOutputLike, Operation, Output } from '../../../tensorflow/graph/operation.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';

export function readsOnly(fetches: Fetches): boolean {
  if (fetches === null || fetches === undefined) return true;
  if (fetches instanceof Operation || typeof fetches !== 'object') return false;
  if (fetches instanceof Output) return isPlainRead(fetches);
  if (isOutputLike(fetches)) return isPlainRead(fetches.toOutput());
  return Object.values(fetches).every((child) => readsOnly(child as Fetches));
}

// Steps check the same few outputs repeatedly, and each check calls into TensorFlow.
const known = new WeakMap<Output, boolean>();

/** A read with control inputs runs those ops too. */
function isPlainRead(output: Output): boolean {
  const cached = known.get(output);
  if (cached !== undefined) return cached;
  const { op } = output;
  const found = op.type === 'ReadVariableOp' && op.controlInputs.length === 0;
  known.set(output, found);
  return found;
}
