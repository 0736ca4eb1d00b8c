/** Finds files that an export must not leave on the disk of any task. */
import { existsSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { RESERVED } from '../../src/distributed/store/blob-names.js';
import type { Cluster } from '../checkpoint/processes.js';

/** Whether a file belongs to an unpublished export: staging directories, blobs, partially written blobs. */
export const isLeftover = (path: string): boolean =>
  /(^|\/)\.[^/]*\.tmp-/.test(path) || path.includes('blobs/+exports/') || path.includes(`${RESERVED}/`);

/** The remaining files, each with the name of its task. */
export function leftovers(cluster: Cluster): readonly string[] {
  return cluster.names.flatMap((name) => {
    const root = cluster.directory(name);
    if (!existsSync(root)) return [];
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() || entry.name.includes('.tmp-'))
      .map((entry) => relative(root, join(entry.parentPath, entry.name)))
      .filter(isLeftover)
      .map((path) => `${name}: ${path}`);
  });
}
