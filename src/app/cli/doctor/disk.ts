/** Checks the free disk space of the cache folder. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { spaceNeeded } from '../../../../scripts/setup/fetch.mjs';
import { pinFor, platformKey, readLock } from '../../../../scripts/setup/locate.mjs';
import { bytes } from '../../../base/text/format.js';
import { cacheFolder } from '../../../tensorflow/native/library/locate.js';
import { type Finding, ok, problem, warning } from './finding.js';

const LOW_BYTES = 1e9;

export async function checkDisk(env: Readonly<NodeJS.ProcessEnv>, haveLibrary: boolean): Promise<Finding> {
  const cache = cacheFolder(env);
  const { bavail, bsize } = await statfs(nearestExisting(cache));
  const free = bavail * bsize;
  const needed = haveLibrary ? 0 : bytesForSetup();
  const details = { cache, freeBytes: free, neededBytes: needed };
  const summary = `${bytes(free)} free for ${cache}`;
  const fix = 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.';
  if (free < needed) return problem('disk', `${summary}, setup needs ${bytes(needed)}`, fix, details);
  return free < LOW_BYTES ? warning('disk', summary, fix, details) : ok('disk', summary, details);
}

function bytesForSetup(): number {
  const lock = readLock();
  const platform = platformKey();
  return lock.platforms[platform] ? spaceNeeded(pinFor(lock, platform)) : 0;
}

/** The cache may not exist yet; its nearest existing parent is on the same disk. */
function nearestExisting(dir: string): string {
  return existsSync(dir) ? dir : nearestExisting(dirname(dir));
}
