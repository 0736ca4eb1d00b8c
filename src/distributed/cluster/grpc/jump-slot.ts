/** The jump slot: the word through which a loaded library calls a function of another library. Linux only. */

import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import { findJumpSlot } from '../../../tensorflow/native/library/elf.js';
import koffi from '../../../tensorflow/native/library/ffi.js';
import { withImageFile } from '../../../tensorflow/native/library/image-file.js';

const RTLD_LAZY = 1;

export type JumpSlot =
  /** A view of the slot: a write redirects the calls of that library only. */
  | { readonly word: BigUint64Array; readonly why?: undefined }
  | { readonly word?: undefined; readonly why: string };

export interface JumpSlotOptions {
  /** The file of the library that makes the calls. */
  readonly path: string;
  /** Any address inside that library. */
  readonly inside: Pointer;
  readonly symbol: string;
  /** The address in the slot once it is bound. */
  readonly target: Pointer;
}

export function openJumpSlot({ path, inside, symbol, target }: JumpSlotOptions): JumpSlot {
  const base = imageBase(inside);
  const { slot, why } = withImageFile(path, (image) => findJumpSlot(image, symbol));
  if (slot === undefined) return { why };
  const word = new BigUint64Array(koffi.view(base + slot, 8));
  // An unbound slot points into its own library, a bound one to the function in the other library.
  if (![base, imageBase(target)].includes(imageBase(word[0] as bigint)))
    return { why: 'the loaded library does not match the file' };
  return { word };
}

/** The address of a symbol in a loaded library; null searches all libraries. */
export function symbolAddress(path: string | null, symbol: string): Pointer | undefined {
  const self = koffi.load(null);
  const dlopen = self.func('dlopen', 'void *', ['str', 'int']);
  const dlsym = self.func('dlsym', 'void *', ['void *', 'str']);
  const address = dlsym(dlopen(path, RTLD_LAZY), symbol) as Pointer | null;
  return address || undefined;
}

/** The base address of the library that contains an address; 0 if none does. */
function imageBase(address: Pointer): Pointer {
  const dladdr = koffi.load(null).func('dladdr', 'int', ['void *', 'void *']);
  // Dl_info: file name, base, symbol name, symbol address.
  const info = new BigUint64Array(4);
  dladdr(address, info);
  return info[1] as bigint;
}
