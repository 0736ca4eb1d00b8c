/** Whether a job has nothing left to do: its newest checkpoint is at its last step, and it neither exports nor evaluates. */
import { basename, dirname, resolve } from 'node:path';
import { healthOf, surveyCheckpoints } from '../../checkpoint/catalog.js';
import { isShoalError } from '../../errors/errors.js';
import type { JobDefinition } from '../../job/define-job.js';
import { readClusterFile } from '../../job/launcher/cluster-file.js';
import { isTaskDirectory, localDirectory } from '../../job/task-directory.js';
import { checkpointInDirectory } from '../../train/checkpoints/directory-checkpoint.js';
import { openStore } from '../checkpoint/open.js';
import { blobDirectories } from '../checkpoint/places.js';

/**
 * The lines to print for a finished job; undefined if its tasks must start. Looks only at this disk, and at no running
 * job. What the tasks would restore decides: their own directories, or a checkpoint that another program has written.
 */
export async function describeFinished(
  { name, train: { checkpoint, lastStep }, export: exported, evaluate }: JobDefinition,
  home: string,
): Promise<readonly string[] | undefined> {
  // The tasks export or evaluate the last checkpoint if that has not happened.
  if (!checkpoint || exported || evaluate || readClusterFile(home)) return undefined;
  const store = checkpoint.store?.startsWith('file:') ? checkpoint.store : undefined;
  const namespace = store === undefined ? name : '';
  const blobs = blobDirectories(home).filter((path) => isTaskDirectory(basename(dirname(path))));
  // A list of directories is separated by commas.
  if (store === undefined && (blobs.length === 0 || blobs.some((path) => path.includes(','))))
    return undefined;
  const place = store === undefined ? { dirs: blobs.join(',') } : { store };
  try {
    await using open = await openStore({ ...place, job: namespace, json: false }, { env: {} });
    const survey = await surveyCheckpoints(open.store, namespace);
    const [newest] = survey.manifests;
    if (!newest || newest.step < lastStep || (newest.job ?? name) !== name) return undefined;
    const { missing } = await healthOf(open.store, namespace, newest);
    if (missing.length > 0) return undefined;
    const directory = resolve(localDirectory(home), checkpoint.directory ?? 'checkpoints');
    if (await checkpointInDirectory(survey, { directory, job: name })) return undefined;
    return [
      `job ${name} is finished: its newest checkpoint, ${newest.prefix}, has reached its last step (${lastStep})`,
      `to train further: --last-step ${2 * Math.max(newest.step, 1)}; to start over: --fresh`,
    ];
  } catch (error) {
    // Whatever cannot be read here, the tasks report when they restore.
    if (isShoalError(error) || (error as NodeJS.ErrnoException).code !== undefined) return undefined;
    throw error;
  }
}
