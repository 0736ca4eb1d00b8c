/**
 * Memory of a loaded library that is resident only because it was loaded. The loader reads all relocations and many
 * symbols, and static initializers run once. Each access maps the pages around it too, with recent kernels as many as
 * the page cache keeps in one piece: 250 to 350 MB of TensorFlow. This removes them from the process. They stay in the
 * page cache, and the next access maps them again.
 */
import { readOnlyRanges } from './elf.js';
import koffi from './ffi.js';
import { withImageFile } from './image-file.js';

const RTLD_LAZY = 1;
const RTLD_DI_LINKMAP = 2;
const MADV_DONTNEED = 4;

type Advise = (start: bigint, bytes: number, advice: number) => number;

/**
 * Releases the pages of a loaded library that nothing can have written. An error has no consequence: the pages stay
 * resident.
 */
export function releaseLoadedPages(path: string, pageBytes: number, madvise: Advise): void {
  if (process.platform !== 'linux') return;
  try {
    const shift = loadShift(path);
    if (shift === undefined) return;
    const page = BigInt(pageBytes);
    for (const range of withImageFile(path, readOnlyRanges)) {
      // A page at an end may be shared with a segment that is written.
      const start = ((shift + range.start + page - 1n) / page) * page;
      const end = ((shift + range.end) / page) * page;
      if (end > start) madvise(start, Number(end - start), MADV_DONTNEED);
    }
  } catch {
    // See above.
  }
}

/** What the loader added to the addresses in the file. */
function loadShift(path: string): bigint | undefined {
  const self = koffi.load(null);
  const dlopen = self.func('dlopen', 'void *', ['str', 'int']);
  const dlinfo = self.func('dlinfo', 'int', ['void *', 'int', 'void *']);
  const linkMap = new BigUint64Array(1);
  if (dlinfo(dlopen(path, RTLD_LAZY), RTLD_DI_LINKMAP, linkMap) !== 0) return undefined;
  return new BigUint64Array(koffi.view(linkMap[0] as bigint, 8))[0];
}
