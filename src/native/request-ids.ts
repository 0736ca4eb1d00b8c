/**
 * Repairs TensorFlow's request ids. Every step of a distributed session takes an id from a generator that
 * is seeded with 32 bits on each new thread, and the master runs each step on a new thread: now and then two
 * steps get the same id, and a ps that remembers it aborts the second as a duplicate, half applied, or
 * leaves it waiting for ever. The library calls that generator through a slot that is bound at first use, and
 * exports a well-seeded generator with the same signature: the repair points the slot at that one.
 */
import koffi from 'koffi';
import type { Pointer } from './c-api.js';
import { findJumpSlot } from './elf.js';
import { library } from './library.js';

const WEAK = '_ZN3tsl6random16ThreadLocalNew64Ev';
const STRONG = '_ZN3tsl6random5New64Ev';
const RTLD_LAZY = 1;

export type RequestIdRepair =
  | { readonly repaired: true }
  /** Steps may collide about once in 100,000; recovery has to deal with it. */
  | { readonly repaired: false; readonly why: string };

let outcome: RequestIdRepair | undefined;

/** Repairs the loaded library, once; says what came of it. */
export function repairRequestIds(): RequestIdRepair {
  outcome ??= repair();
  return outcome;
}

function repair(): RequestIdRepair {
  if (process.platform !== 'linux') return { repaired: false, why: `not known how on ${process.platform}` };
  const { located } = library();
  const strong = addressOf(located.frameworkPath, STRONG);
  if (strong === undefined) return { repaired: false, why: 'the library has no other generator' };
  const anchor = addressOf(located.ccPath, 'TF_Version');
  if (anchor === undefined) return { repaired: false, why: 'the library cannot be found in memory' };
  const { slot, why } = findJumpSlot(imageBase(anchor), WEAK);
  if (slot === undefined) return { repaired: false, why };
  const word = new BigUint64Array(koffi.view(slot, 8));
  word[0] = strong;
  return { repaired: true };
}

/** The address of a symbol in a library that is loaded. */
export function addressOf(path: string, symbol: string): Pointer | undefined {
  const self = koffi.load(null);
  const dlopen = self.func('dlopen', 'void *', ['str', 'int']);
  const dlsym = self.func('dlsym', 'void *', ['void *', 'str']);
  const address = dlsym(dlopen(path, RTLD_LAZY), symbol) as Pointer | null;
  return address || undefined;
}

/** Where the image that holds an address begins. */
function imageBase(address: Pointer): Pointer {
  const dladdr = koffi.load(null).func('dladdr', 'int', ['void *', 'void *']);
  // Dl_info: file name, base, symbol name, symbol address.
  const info = new BigUint64Array(4);
  dladdr(address, info);
  return info[1] as bigint;
}
