/**
 * Repairs TensorFlow's request ids. Every step of a distributed session takes an id from a generator that is seeded
 * with 32 bits on each new thread, and the master runs each step on a new thread. Sometimes two steps get the same id,
 * and a ps aborts the second as a duplicate, partially applied, or leaves it waiting forever. The library calls that
 * generator through a lazily bound jump slot and exports a well-seeded generator with the same signature: the repair
 * redirects the slot to it.
 */

import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import koffi from '../../../tensorflow/native/library/ffi.js';
import { library } from '../../../tensorflow/native/library/library.js';
import { openJumpSlot, symbolAddress } from './jump-slot.js';
import { GET_ID, STRONG, WEAK } from './request-id-survey.js';

export type RequestIdRepair =
  | { readonly repaired: true }
  /** About one step in 100,000 may collide; recovery handles it. */
  | { readonly repaired: false; readonly why: string };

let outcome: RequestIdRepair | undefined;

/** Repairs the loaded library once and returns the outcome. Call it before the first server starts. */
export function repairRequestIds(): RequestIdRepair {
  outcome ??= repair();
  return outcome;
}

function repair(): RequestIdRepair {
  if (process.platform !== 'linux') return { repaired: false, why: `not supported on ${process.platform}` };
  const { located } = library();
  const strong = symbolAddress(located.frameworkPath, STRONG);
  if (strong === undefined) return { repaired: false, why: 'the library has no well-seeded generator' };
  const getId = symbolAddress(located.ccPath, GET_ID);
  if (getId === undefined) return { repaired: false, why: 'the library does not export the id function' };
  const { word, why } = openJumpSlot({ path: located.ccPath, inside: getId, symbol: WEAK, target: strong });
  if (word === undefined) return { repaired: false, why };
  const before = word[0] as bigint;
  // Verify the slot: with a function of known result in it, ids must equal that result.
  word[0] = symbolAddress(null, 'getpid') as bigint;
  const probed = idOnFreshThread(getId);
  if (probed !== BigInt(process.pid)) {
    word[0] = before;
    return { repaired: false, why: 'the library does not use this slot for request ids' };
  }
  word[0] = strong;
  return { repaired: true };
}

/** An id generated on a new thread, as for a step; the thread's return value is the id. */
export function idOnFreshThread(getId: Pointer): bigint {
  const self = koffi.load(null);
  const create = self.func('pthread_create', 'int', ['void *', 'void *', 'void *', 'void *']);
  const join = self.func('pthread_join', 'int', ['uint64_t', 'void *']);
  const thread = new BigUint64Array(1);
  const result = new BigUint64Array(1);
  if (create(thread, null, getId, null) !== 0) return 0n;
  join(thread[0] as bigint, result);
  return result[0] as bigint;
}
