/** Whether the bytes of a file are in the page cache. */
import type { Pointer } from '../library/c-api.js';
import { library } from '../library/library.js';

const PROT_READ = 1;
const MAP_SHARED = 1;
const MAP_FAILED = 2n ** 64n - 1n;
/** Asking for all pages of a file of 700 MB takes 40 ms. */
const SAMPLES = 64;
const SAMPLE_PAGES = 16;

/**
 * The part of an open file that is in the page cache, from 0 to 1, estimated from evenly spaced samples. The file is
 * mapped, but no page of it is read. Undefined where the system does not report it. Linux reports 1 for a file that
 * this process may not write.
 */
export function cachedPart(descriptor: number, size: number): number | undefined {
  if (process.platform !== 'linux' || size === 0) return undefined;
  const { mmap, munmap, mincore, getpagesize } = library().libc;
  const pageBytes = getpagesize();
  const start: Pointer = BigInt(mmap(0, size, PROT_READ, MAP_SHARED, descriptor, 0));
  if (start === MAP_FAILED) return undefined;
  try {
    const pages = Math.ceil(size / pageBytes);
    const flags = new Uint8Array(SAMPLE_PAGES);
    let [cached, asked] = [0, 0];
    for (let sample = 0; sample < SAMPLES; sample++) {
      const first = Math.floor((sample * pages) / SAMPLES);
      const count = Math.min(SAMPLE_PAGES, pages - first);
      if (mincore(start + BigInt(first * pageBytes), count * pageBytes, flags) !== 0) return undefined;
      for (const flag of flags.subarray(0, count)) cached += flag & 1;
      asked += count;
    }
    return cached / asked;
  } finally {
    munmap(start, size);
  }
}
