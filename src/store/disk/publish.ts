/** The last step of writing a blob: a file that is whole and on the disk gets its name, in one instant. */
import { constants } from 'node:fs';
import { link, lstat, mkdir, open, readdir, rename, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { invalid, messageOf, ShoalError } from '../../errors/errors.js';
import { type BlobName, locate, RESERVED } from '../blob-names.js';
import { codeOf } from './blob-disk.js';

/** A directory may be tidied away by a remover between its making and its use, but not for ever. */
const ATTEMPTS = 20;

export function isNoSpace(error: unknown): boolean {
  return codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT';
}

export function noSpace(name: string, cause: unknown): ShoalError {
  return new ShoalError('SHOAL_NO_SPACE', `no room for blob ${name}: ${messageOf(cause)}`, {
    hint: 'free some space on the disk of this task, or keep fewer checkpoints',
    cause,
  });
}

export async function checkRoom(root: string, name: BlobName, bytes: number): Promise<void> {
  if (bytes <= 0) return;
  const { bavail, bsize } = await statfs(root);
  if (bavail * bsize < bytes) throw noSpace(name, `${bytes} bytes are to come, ${bavail * bsize} are free`);
}

/**
 * Gives the file `partial` its name. False when `ifAbsent` found a blob: of several writers the link of one
 * succeeds. The partial file is gone afterwards, whether it was published or not.
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
      await makeDirectory(dirname(path));
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
      throw isNoSpace(error) ? noSpace(name, error) : error;
    }
  }
}

async function linkOnce(partial: string, path: string): Promise<boolean> {
  try {
    await link(partial, path);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // Over NFS the answer to a link that was made may be lost, and the repeated call fails; the count tells.
    return (await lstat(partial)).nlink > 1;
  }
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** Makes a directory with its parents, so that they last through a power cut. */
export async function makeDirectory(path: string, mode?: number): Promise<void> {
  const first = await mkdir(path, { recursive: true, ...(mode !== undefined && { mode }) });
  if (first === undefined) return;
  for (let at = path; at.length >= first.length; at = dirname(at)) await syncDirectory(dirname(at));
}

/** Makes a rename last through a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** The name of the unfinished file of an upload, which goes on where it was when its process is started again. */
export const UPLOAD_FILE = /^[0-9a-f]{64}\.part$/;

/** Removes files that were begun and not touched for a while, if `mayGo` lets them go; tells how many. */
export async function sweepPartials(
  root: string,
  olderThanMs: number,
  now: number,
  mayGo: (path: string, file: string) => boolean,
): Promise<number> {
  const folder = join(root, RESERVED);
  let swept = 0;
  for (const file of await readdir(folder).catch(() => [])) {
    const path = join(folder, file);
    const stat = await lstat(path).catch(() => undefined);
    if (stat === undefined || now - stat.mtimeMs < olderThanMs || !mayGo(path, file)) continue;
    await rm(path, { force: true });
    swept++;
  }
  return swept;
}
