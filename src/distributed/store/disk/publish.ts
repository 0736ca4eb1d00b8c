/** The last step of writing a blob: a complete, durable file is moved into place atomically. */
import { constants } from 'node:fs';
import { link, lstat, open, readdir, rename, rm, statfs } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { invalid, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { type BlobName, locate, RESERVED } from '../blob-names.js';
import { codeOf } from './blob-disk.js';

/** A concurrent removal may delete the empty directory before it is used. */
const ATTEMPTS = 20;

export function isNoSpace(error: unknown): boolean {
  return codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT';
}

/** @param root the directory on this host; the error may be shown on another one. */
export function noSpace(root: string, name: string, cause: unknown): ShoalError {
  return new ShoalError('SHOAL_NO_SPACE', `no space for blob ${name}: ${messageOf(cause)}`, {
    hint: `free disk space on ${hostname()}:${root}, or keep fewer checkpoints`,
    cause,
  });
}

export async function checkFreeSpace(root: string, name: BlobName, bytes: number): Promise<void> {
  if (bytes <= 0) return;
  const { bavail, bsize } = await statfs(root);
  if (bavail * bsize < bytes) throw noSpace(root, name, `${bytes} bytes needed, ${bavail * bsize} free`);
}

/**
 * Moves the file `partial` into place. False when `ifAbsent` found an existing blob: the link of only one writer
 * succeeds. The partial file is removed in both cases.
 */
export async function moveIntoPlace(
  root: string,
  name: BlobName,
  partial: string,
  ifAbsent: boolean,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      const path = await locate(root, name);
      await makeDurableDirectory(dirname(path));
      if (ifAbsent && !(await linkOnce(partial, path))) {
        await rm(partial, { force: true });
        return false;
      }
      if (ifAbsent) await rm(partial);
      else await rename(partial, path);
      await syncDirectory(dirname(path));
      return true;
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ENOENT' && attempt < ATTEMPTS && (await exists(partial))) continue;
      if (code === 'ENOTDIR' || code === 'EEXIST' || code === 'EISDIR' || code === 'ENOTEMPTY') {
        throw invalid(`blob ${name} would be both a file and a directory`, { cause: error });
      }
      throw isNoSpace(error) ? noSpace(root, name, error) : error;
    }
  }
}

async function linkOnce(partial: string, path: string): Promise<boolean> {
  try {
    await link(partial, path);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // Over NFS the reply to a successful link may be lost, and the retry fails; the link count shows the success.
    return (await lstat(partial)).nlink > 1;
  }
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** Creates a directory and its parents durably. */
export async function makeDurableDirectory(path: string, mode?: number): Promise<void> {
  const created = await makeDirectory(path, { mode });
  for (const one of created.toReversed()) await syncDirectory(dirname(one));
}

/** Only the owner can access incomplete files. Published ones, and the directories around them, follow the umask. */
export async function makePartialsDirectory(root: string): Promise<void> {
  await makeDurableDirectory(root);
  await makeDurableDirectory(join(root, RESERVED), 0o700);
}

/** Makes a rename durable. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** The names of the partial files of uploads, which resume after a restart. */
export const UPLOAD_FILE = /^[0-9a-f]{64}\.part$/;

/** Removes partial files without recent changes if `mayRemove` allows it; returns how many. */
export async function sweepPartials(
  root: string,
  olderThanMs: number,
  now: number,
  mayRemove: (path: string, file: string) => boolean,
): Promise<number> {
  const folder = join(root, RESERVED);
  let swept = 0;
  for (const file of await readdir(folder).catch(() => [])) {
    const path = join(folder, file);
    const stat = await lstat(path).catch(() => undefined);
    if (stat === undefined || now - stat.mtimeMs < olderThanMs || !mayRemove(path, file)) continue;
    await rm(path, { force: true });
    swept++;
  }
  return swept;
}
