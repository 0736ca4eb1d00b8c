/** Whether the bytes of a file are in the page cache. */
import koffi from 'koffi';
import type { Pointer } from './c-api.js';

const PROT_READ = 1;
const MAP_SHARED = 1;
const MAP_FAILED = 2n ** 64n - 1n;

/**
 * The part of an open file that is in the page cache, from 0 to 1. The file is mapped, but no page of it is read.
 * Undefined where the system does not report it. Linux reports 1 for a file of another user.
 */
export function cachedPart(descriptor: number, size: number): number | undefined {
  if (process.platform !== 'linux' || size === 0) return undefined;
  const libc = koffi.load(null);
  const mmap = libc.func('mmap', 'uintptr_t', ['uintptr_t', 'size_t', 'int', 'int', 'int', 'int64_t']);
  const mincore = libc.func('mincore', 'int', ['uintptr_t', 'size_t', 'void *']);
  const munmap = libc.func('munmap', 'int', ['uintptr_t', 'size_t']);
  const pageBytes: number = libc.func('getpagesize', 'int', [])();
  const start: Pointer = BigInt(mmap(0, size, PROT_READ, MAP_SHARED, descriptor, 0));
  if (start === MAP_FAILED) return undefined;
  try {
    const pages = new Uint8Array(Math.ceil(size / pageBytes));
    if (mincore(start, size, pages) !== 0) return undefined;
    return pages.reduce((sum, flags) => sum + (flags & 1), 0) / pages.length;
  } finally {
    munmap(start, size);
  }
}
