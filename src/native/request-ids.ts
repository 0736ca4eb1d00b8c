/**
 * Repairs TensorFlow's request ids. Every step of a distributed session takes an id from a generator that
 * is seeded with 32 bits on each new thread, and the master runs each step on a new thread: now and then two
 * steps get the same id, and a ps that remembers it aborts the second as a duplicate, half applied, or
 * leaves it waiting for ever. The library calls that generator through a slot that is bound at first use, and
 * exports a well-seeded generator with the same signature: the repair points the slot at that one.
 */
import koffi from 'koffi';
import type { Pointer } from './c-api.js';
import { addressOf, openJumpSlot } from './jump-slot.js';
import { library } from './library.js';
import { GET_ID, STRONG, WEAK } from './request-id-survey.js';

export type RequestIdRepair =
  | { readonly repaired: true }
  /** Steps may collide about once in 100,000; recovery has to deal with it. */
  | { readonly repaired: false; readonly why: string };

let outcome: RequestIdRepair | undefined;

/** Repairs the loaded library, once; says what came of it. To be called before the first server starts. */
export function repairRequestIds(): RequestIdRepair {
  outcome ??= repair();
  return outcome;
}

function repair(): RequestIdRepair {
  if (process.platform !== 'linux') return { repaired: false, why: `not known how on ${process.platform}` };
  const { located } = library();
  const strong = addressOf(located.frameworkPath, STRONG);
  if (strong === undefined) return { repaired: false, why: 'the library has no other generator' };
  const getId = addressOf(located.ccPath, GET_ID);
  if (getId === undefined)
    return { repaired: false, why: 'the library gives no ids that could be looked at' };
  const { word, why } = openJumpSlot({ path: located.ccPath, inside: getId, symbol: WEAK, target: strong });
  if (word === undefined) return { repaired: false, why };
  const before = word[0] as bigint;
  // Is it this slot that ids come through? With a function in it whose answer is known, an id is that answer.
  word[0] = addressOf(null, 'getpid') as bigint;
  const probed = idOnFreshThread(getId);
  if (probed !== BigInt(process.pid)) {
    word[0] = before;
    return { repaired: false, why: 'the library takes its ids from elsewhere' };
  }
  word[0] = strong;
  return { repaired: true };
}

/** An id as a step gets it: on a thread that has just begun. What the thread returns is the id. */
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
