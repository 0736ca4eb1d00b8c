/**
 * Jobs without a cluster formerly saved to `./checkpoints`, whatever the job's name. Such checkpoints do not record
 * their job: instead of resuming from them or silently starting over, training fails.
 */
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { parseManifestBlob } from '../../../distributed/checkpoint/format/names.js';

export async function refuseFormerLayout(
  job: string,
  directories: readonly string[],
  blobs: string,
): Promise<void> {
  for (const directory of directories) {
    const names = await readdir(join(directory, 'manifests')).catch(() => []);
    if (!names.some((name) => parseManifestBlob(`manifests/${name}`))) continue;
    const [from, to] = [directory, join(blobs, job)].map((path) => relative('.', path) || '.');
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${directory} has checkpoints that do not name their job; job ${job} has none in ${blobs}`,
      {
        hint:
          `If they belong to this job: mkdir -p ${relative('.', blobs)} && mv ${from} ${to}. ` +
          'If not, move them away, or give train.checkpoint.directory another name.',
      },
    );
  }
}
