/** Is there room in the cache folder? */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { spaceNeeded } from '../../../scripts/setup/fetch.mjs';
import { pinFor, platformKey, readLock } from '../../../scripts/setup/locate.mjs';
import { cacheFolder } from '../../native/locate.js';
import { type Finding, ok, problem, warning } from './finding.js';

const LITTLE = 1e9;

export async function checkDisk(env: Readonly<NodeJS.ProcessEnv>, haveLibrary: boolean): Promise<Finding> {
  const cache = cacheFolder(env);
  const { bavail, bsize } = await statfs(existingPart(cache));
  const free = bavail * bsize;
  const needed = haveLibrary ? 0 : bytesForSetup();
  const details = { cache, freeBytes: free, neededBytes: needed };
  const summary = `${gigabytes(free)} GB free for ${cache}`;
  const mend = 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.';
  if (free < needed)
    return problem('disk', `${summary}, set-up needs ${gigabytes(needed)} GB`, mend, details);
  return free < LITTLE ? warning('disk', summary, mend, details) : ok('disk', summary, details);
}

function bytesForSetup(): number {
  const lock = readLock();
  const platform = platformKey();
  return lock.platforms[platform] ? spaceNeeded(pinFor(lock, platform)) : 0;
}

/** The cache may not exist yet; its nearest existing parent lies on the same disk. */
function existingPart(dir: string): string {
  return existsSync(dir) ? dir : existingPart(dirname(dir));
}

function gigabytes(bytes: number): string {
  return (bytes / 1e9).toFixed(1);
}
