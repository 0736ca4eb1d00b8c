/**
 * Whether a run is known to change nothing: all that it fetches are plain reads of variables. A cut need not wait for
 * such a run, and a saver that looks at the global step during a cut must not be held by it.
 */
import { isOutputLike, Operation, Output } from '../../graph/operation.js';
import type { Fetches } from '../../session/fetches.js';

export function readsOnly(fetches: Fetches): boolean {
  if (fetches === null || fetches === undefined) return true;
  if (fetches instanceof Operation || typeof fetches !== 'object') return false;
  if (fetches instanceof Output) return isPlainRead(fetches);
  if (isOutputLike(fetches)) return isPlainRead(fetches.toOutput());
  return Object.values(fetches).every((child) => readsOnly(child as Fetches));
}

// Steps ask again and again about the same few outputs, and the answer takes calls into TensorFlow.
const known = new WeakMap<Output, boolean>();

/** A read that waits for other ops runs those too. */
function isPlainRead(output: Output): boolean {
  const told = known.get(output);
  if (told !== undefined) return told;
  const { op } = output;
  const found = op.type === 'ReadVariableOp' && op.controlInputs.length === 0;
  known.set(output, found);
  return found;
}
