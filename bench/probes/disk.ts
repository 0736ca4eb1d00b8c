/** The speed of this machine's disk and memory at this moment, and control over its page cache. */
import { execFile } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../harness.js';

const run = promisify(execFile);
const STEP = 4 << 20;
const MB = 2 ** 20;

/** MB/s of writing and flushing a file in the directory, which stays there for `readSpeed`. */
export async function writeSpeed(directory: string, mb: number): Promise<number> {
  const path = join(directory, 'probe');
  await rm(path, { force: true });
  const chunk = randomFillSync(Buffer.allocUnsafeSlow(STEP));
  const start = performance.now();
  const file = await open(path, 'wx');
  try {
    for (let left = mb * MB; left > 0; left -= STEP) await file.write(chunk, 0, Math.min(left, STEP));
    await file.datasync();
  } finally {
    await file.close();
  }
  return (mb / (performance.now() - start)) * 1000;
}

/**
 * Writes a file past the page cache with the lowest CPU priority, without checksums, copies or read-back: a lower bound
 * for a save of the same size. Returns false where `chrt` or `dd` cannot do this. The caller deletes the file, because
 * deleting is no part of a save.
 */
export async function bareWrite(path: string, mb: number): Promise<boolean> {
  const dd = ['dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${mb}`, 'oflag=direct', 'conv=fdatasync'];
  return run('chrt', ['-i', '0', ...dd]).then(
    () => true,
    () => false,
  );
}

/**
 * Milliseconds in which the files are read past the page cache, all at once, without looking at the bytes: a lower
 * bound for a load from the disk. Undefined where `dd` cannot do this.
 */
export async function bareReadMs(paths: readonly string[]): Promise<number | undefined> {
  const start = performance.now();
  const read = (path: string) => run('dd', [`if=${path}`, 'of=/dev/null', 'bs=4M', 'iflag=direct']);
  return Promise.all(paths.map(read)).then(
    () => performance.now() - start,
    () => undefined,
  );
}

/** MB/s of reading the file of `writeSpeed`; from the disk, if the file can be evicted from the page cache. */
export async function readSpeed(directory: string, mb: number): Promise<number> {
  const path = join(directory, 'probe');
  await tryEvict([path]);
  const buffer = Buffer.allocUnsafeSlow(STEP).fill(0);
  const start = performance.now();
  const file = await open(path, 'r');
  try {
    while ((await file.read(buffer, 0, STEP)).bytesRead > 0);
  } finally {
    await file.close();
  }
  return (mb / (performance.now() - start)) * 1000;
}

/** Milliseconds in which one thread copies this much to newly allocated memory. */
export async function copyMs(mb: number): Promise<number> {
  const { stdout } = await run(process.execPath, [join(ROOT, 'bench/programs/memory-copy.mjs'), `${mb}`]);
  return Number(stdout);
}

/** Writes all cached data of the machine to its disks. */
export async function flushDisk(): Promise<void> {
  await run('sync');
}

/** Reads files into the page cache. */
export async function readIntoCache(paths: readonly string[]): Promise<void> {
  for (const path of paths) await run('dd', [`if=${path}`, 'of=/dev/null', 'bs=1M']);
}

/** Evicts files that are flushed from the page cache. */
export async function evict(paths: readonly string[]): Promise<void> {
  for (const path of paths) await run('dd', [`if=${path}`, 'of=/dev/null', 'iflag=nocache', 'count=0']);
}

/** Evicts files and returns whether less than 1 MB of each is still cached. */
export async function tryEvict(paths: readonly string[]): Promise<boolean> {
  try {
    await evict(paths);
    const { stdout } = await run('fincore', ['--bytes', '--noheadings', '--output', 'RES', ...paths]);
    return stdout
      .trim()
      .split(/\s+/)
      .every((bytes) => Number(bytes) < MB);
  } catch {
    return false;
  }
}

/** All files below a directory. */
export async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
