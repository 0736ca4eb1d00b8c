/**
 * libcrc32c, which set-up installs on Linux: it computes checksums two to four times as fast as the npm package, which is
 * used where it is not installed. TensorFlow's own function is not an alternative: its builds do not use the processor's
 * crc instruction.
 */
import { type Crc32c, useCrc32c } from '../../../base/bytes/crc32c.js';
import koffi from './ffi.js';
import { locateCrc32c } from './locate.js';

/** Makes `crc32c` use the library, if it is installed and works. */
export function useCrc32cLibrary(path = locateCrc32c()): boolean {
  const native = path === undefined ? undefined : load(path);
  return native !== undefined && useCrc32c(native);
}

function load(path: string): Crc32c | undefined {
  try {
    const extend = koffi.load(path).func('crc32c_extend', 'uint32_t', ['uint32_t', 'void *', 'size_t']);
    return (bytes, seed = 0) => extend(seed, bytes, bytes.length);
  } catch {
    return undefined;
  }
}
