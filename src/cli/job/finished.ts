/** Whether a job has nothing left to train: its newest checkpoint is at its last step. */
import { healthOf, listCheckpoints } from '../../checkpoint/catalog.js';
import { isShoalError } from '../../errors/errors.js';
import type { JobDefinition } from '../../job/define-job.js';
import { readClusterFile } from '../../job/launcher/cluster-file.js';
import { openStore } from '../checkpoint/open.js';

/** The lines to print for a finished job; undefined if it must train. Looks only at this disk, and at no running job. */
export async function describeFinished(
  { name, train: { checkpoint, lastStep }, export: exported }: JobDefinition,
  { home, file }: { readonly home: string; readonly file: string },
): Promise<readonly string[] | undefined> {
  if (!checkpoint || readClusterFile(home)) return undefined;
  const store = checkpoint.store?.startsWith('file:') ? checkpoint.store : undefined;
  const namespace = store === undefined ? name : '';
  const place = store === undefined ? { dir: home } : { store };
  try {
    await using open = await openStore({ ...place, job: namespace, json: false }, { env: {} });
    const [newest] = await listCheckpoints(open.store, namespace);
    if (!newest || newest.step < lastStep || (newest.job ?? name) !== name) return undefined;
    const { missing } = await healthOf(open.store, namespace, newest);
    if (missing.length > 0) return undefined;
    return [
      `job ${name} is finished: its newest checkpoint, ${newest.prefix}, is at its last step (${lastStep})`,
      `to train further: --last-step ${2 * Math.max(newest.step, 1)}; to start over: --fresh`,
      ...(exported ? [`to export the checkpoint again: shoal export ${file} --out DIR`] : []),
    ];
  } catch (error) {
    // Whatever cannot be read here, the tasks report when they restore.
    if (isShoalError(error)) return undefined;
    throw error;
  }
}
