import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { library } from '../library/library.js';
import { largeRanges, useHugePages } from './huge-pages.js';

const MIB = 1 << 20;
const isSupported = (() => {
  try {
    return !readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8').includes('[never]');
  } catch {
    return false;
  }
})();

test('finds large anonymous memory, by whole huge pages', () => {
  const maps = [
    '7f0000001000-7f0008001000 rw-p 00000000 00:00 0 ',
    '7f1000000000-7f1003ffffff rw-p 00000000 00:00 0 ',
    '7f2000000000-7f2008000000 rw-p 00000000 fe:00 12 /a/file',
    '7f3000000000-7f3008000000 ---p 00000000 00:00 0 ',
    '7f4000000000-7f4008000000 rw-p 00000000 00:00 0 [heap]',
  ].join('\n');
  expect(largeRanges(maps)).toEqual([{ start: 0x7f0000200000n, end: 0x7f0008000000n }]);
});

/** How much of this process's memory from `start` on is in huge pages, in bytes. */
function hugeBytes(start: bigint): number {
  const maps = readFileSync('/proc/self/smaps', 'utf8').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/);
  const inRange = maps.filter((map) => {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(map) ?? [];
    return from !== undefined && BigInt(`0x${from}`) < start + BigInt(128 * MIB) && BigInt(`0x${to}`) > start;
  });
  return inRange.reduce((sum, map) => sum + 1024 * Number(/AnonHugePages: +(\d+)/.exec(map)?.[1] ?? 0), 0);
}

test.runIf(isSupported)(
  'converts memory that was allocated in small pages, and keeps its contents',
  async () => {
    const { mmap, munmap, madvise } = library().libc;
    const [size, readWrite, anonymous, populate] = [128 * MIB, 3, 0x22, 23];
    const start = BigInt(mmap(0, size, readWrite, anonymous, -1, 0));
    madvise(start, size, populate);
    const bytes = Buffer.alloc(8, 'contents');
    const at = start + BigInt(64 * MIB);
    library().libc.memcpy(at, bytes, 8);
    const stop = useHugePages({ firstMs: 0 });
    try {
      await expect.poll(() => hugeBytes(start), { timeout: 30_000 }).toBeGreaterThan(64 * MIB);
      const read = Buffer.alloc(8);
      library().libc.memcpy(read, at, 8);
      expect(read.toString()).toBe('contents');
    } finally {
      stop();
      munmap(start, size);
    }
  },
);
