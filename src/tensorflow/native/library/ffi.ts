/**
 * koffi with stacks of the size that threads usually have. Native code runs on a stack that koffi allocates, by default
 * 128 KiB for an asynchronous call: a matrix product alone may need more, and then writes into other memory.
 */
import { createRequire } from 'node:module';
import koffi from 'koffi';

const STACK_BYTES = 8 << 20;

if ((koffi.config().async_stack_size ?? 0) < STACK_BYTES) {
  try {
    // The pages of a stack take up memory once they are used.
    koffi.config({ sync_stack_size: STACK_BYTES, async_stack_size: STACK_BYTES, resident_async_pools: 32 });
  } catch (cause) {
    process.emitWarning(
      `koffi was used before Shoal was imported, so TensorFlow runs on small stacks and may crash (${cause})`,
      { code: 'SHOAL_SMALL_STACK', detail: 'Import shoal before other packages that use koffi.' },
    );
  }
}

/**
 * koffi's native module as another thread loads it: the file that this process has open, so that a thread can start after
 * an upgrade has removed or replaced the package.
 */
export function koffiModule(): string {
  const { cache, resolve } = createRequire(import.meta.url);
  return Object.keys(cache).find((file) => /[\\/]koffi\.node$/.test(file)) ?? resolve('koffi');
}

export type { LibraryHandle } from 'koffi';
export default koffi;
