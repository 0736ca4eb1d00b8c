/**
 * Huge pages behind large tables. A step accesses some thousand random rows of a sparse table. In pages of 4 KiB almost
 * every access misses the processor's cache of page addresses. TensorFlow allocates a table in such pages unless the
 * system uses huge pages for everything. This module finds large allocations and converts them where they are.
 */
import { readFile } from 'node:fs/promises';
import { library } from '../library/library.js';

const SETTING_FILE = '/sys/kernel/mm/transparent_hugepage/enabled';
const MAPS_FILE = '/proc/self/maps';
const HUGE_PAGE = 2n << 20n;
/** Smaller ones fit the processor's cache of page addresses, or nearly so. */
const MIN_BYTES = 64n << 20n;
/** How much one call converts. Accesses to the memory that is being converted wait. */
const STEP_BYTES = 16n << 20n;
const MADV_HUGEPAGE = 14;
const MADV_COLLAPSE = 25;
const FIRST_MS = 2_000;
const EVERY_MS = 15_000;

interface Range {
  readonly start: bigint;
  readonly end: bigint;
}

/** The anonymous writable memory in `/proc/PID/maps` of at least 64 MiB, by whole huge pages. */
export function largeRanges(maps: string): Range[] {
  return maps.split('\n').flatMap((line) => {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *$/.exec(line) ?? [];
    if (from === undefined) return [];
    const start = ((BigInt(`0x${from}`) + HUGE_PAGE - 1n) / HUGE_PAGE) * HUGE_PAGE;
    const end = (BigInt(`0x${to}`) / HUGE_PAGE) * HUGE_PAGE;
    return end - start >= MIN_BYTES ? [{ start, end }] : [];
  });
}

/**
 * Converts large memory now and as more is allocated, until the function that it returns is called. Has no effect where
 * the system does not support huge pages, or where they are turned off.
 */
export function useHugePages({ firstMs = FIRST_MS } = {}): () => void {
  if (process.platform !== 'linux') return () => {};
  const done = new Set<string>();
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const again = (ms: number) => {
    timer = setTimeout(() => void convert().then((isSupported) => isSupported && again(EVERY_MS)), ms);
    timer.unref();
  };
  const convert = async (): Promise<boolean> => {
    const setting = await readFile(SETTING_FILE, 'utf8').catch(() => '[never]');
    if (setting.includes('[never]')) return false;
    const ranges = largeRanges(await readFile(MAPS_FILE, 'utf8').catch(() => ''));
    const current = new Set(ranges.map(({ start, end }) => `${start}-${end}`));
    for (const range of done) if (!current.has(range)) done.delete(range);
    for (const { start, end } of ranges) {
      const name = `${start}-${end}`;
      if (done.has(name)) continue;
      done.add(name);
      for (let at = start; at < end && !isOver; at += STEP_BYTES) {
        const size = Number(end - at < STEP_BYTES ? end - at : STEP_BYTES);
        await advise(at, size, MADV_HUGEPAGE);
        await advise(at, size, MADV_COLLAPSE);
      }
    }
    return !isOver;
  };
  again(firstMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Errors have no consequence: the memory stays in small pages, or is no longer allocated. */
function advise(start: bigint, size: number, advice: number): Promise<void> {
  return new Promise((resolve) => library().libc.madvise.async(start, size, advice, () => resolve()));
}
