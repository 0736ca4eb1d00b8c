/** What the machine itself can do at this moment: write, read and copy as many bytes. All give megabytes a second. */
import { execFile } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../harness.js';

const run = promisify(execFile);
const STEP = 4 << 20;
const MB = 2 ** 20;

/** Writes a file in the directory, sends it to the disk, and leaves it there for `readSpeed`. */
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
 * Writes a file of as many bytes past the page cache with the processor's lowest priority: no sums, no copies, nothing read
 * back. Less than this no save of so many bytes can do. False where there is no such command. The file stays: deleting it
 * is no part of a save.
 */
export async function bareWrite(path: string, mb: number): Promise<boolean> {
  const dd = ['dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${mb}`, 'oflag=direct', 'conv=fdatasync'];
  return run('chrt', ['-i', '0', ...dd]).then(
    () => true,
    () => false,
  );
}

/** Reads the file of `writeSpeed`; from the disk, if the cache can be made to forget it. */
export async function readSpeed(directory: string, mb: number): Promise<number> {
  const path = join(directory, 'probe');
  await forget([path]);
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

/** Milliseconds that one thread takes to copy so much to fresh memory. */
export async function copyMs(mb: number): Promise<number> {
  const { stdout } = await run(process.execPath, [join(ROOT, 'bench/peers/checkpoint-copy.mjs'), `${mb}`]);
  return Number(stdout);
}

/** Has the page cache forget files, and tells whether it did. They are on the disk already. */
export async function forget(paths: readonly string[]): Promise<boolean> {
  try {
    for (const path of paths) await run('dd', [`if=${path}`, 'of=/dev/null', 'iflag=nocache', 'count=0']);
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
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.path, entry.name));
}
