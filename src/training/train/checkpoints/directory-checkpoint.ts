/**
 * A checkpoint that a training directory names but the store does not have, as after training with Python's TensorFlow:
 * when it is restored, and how it is imported into the store.
 */

import { join } from 'node:path';
import {
  describeError,
  hintLineOf,
  isShoalError,
  messageOf,
  type ShoalCode,
  ShoalError,
} from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Checkpoints } from '../../../distributed/checkpoint/checkpoints.js';
import {
  type NamedCheckpoint,
  namedCheckpoint,
} from '../../../distributed/checkpoint/directory/directory-state.js';
import { pushCheckpoint } from '../../../distributed/checkpoint/directory/transfer.js';
import type { RestoreReport, RestoreSelection } from '../../../distributed/checkpoint/protocol/restore.js';
import type { Survey } from '../../../distributed/checkpoint/reading/catalog.js';
import type { Store } from '../../../distributed/store/store.js';

export interface DirectoryOptions {
  readonly directory: string;
  readonly job?: string;
  readonly log?: Log;
}

/**
 * The checkpoint that the directory names, if it must be restored: the store has none, or another program has trained
 * in this directory since Shoal saved its newest.
 */
export async function checkpointInDirectory(
  { manifests, unreadable }: Pick<Survey, 'manifests' | 'unreadable'>,
  { directory, job, log }: DirectoryOptions,
): Promise<NamedCheckpoint | undefined> {
  const [newest] = manifests;
  if (!newest) return unreadable.length > 0 ? undefined : namedCheckpoint(directory, job);
  const found = await namedCheckpoint(directory).catch((error: unknown) => {
    log?.(
      `${messageOf(error)}; using ${newest.prefix}, the newest checkpoint of the store${hintLineOf(error)}`,
    );
    return undefined;
  });
  // If Shoal has not written to the directory yet, its file may be old: the store's checkpoint is newer.
  if (!found || found.isShown || !found.hasView || found.modifiedMs <= newest.savedAtMs) return undefined;
  return manifests.some(({ prefix }) => prefix === found.name) ? undefined : found;
}

/** The import stays until retention removes it, so it can be restored after the loss of the directory's disk. */
export async function restoreFromDirectory(
  found: NamedCheckpoint,
  parts: {
    readonly checkpoints: Checkpoints;
    readonly store: Store;
    readonly namespace: string;
    readonly request: RestoreSelection;
  },
  { directory, job, log }: DirectoryOptions,
): Promise<RestoreReport> {
  const { checkpoints, store, namespace, request } = parts;
  const { signal } = request;
  log?.(`importing ${found.path}, which is not in the store`);
  const imported = await pushCheckpoint(store, namespace, found.path, { signal, job }).catch(
    (error: unknown) => {
      throw isShoalError(error) && !UNREADABLE.has(error.code) ? error : unreadable(directory, found, error);
    },
  );
  try {
    return await checkpoints.restore(imported, request);
  } catch (error) {
    await checkpoints
      .remove(imported)
      .catch((failure: unknown) =>
        log?.(`the import of ${found.path} could not be removed: ${describeError(failure)}`),
      );
    throw error;
  }
}

/** Error codes of missing or damaged checkpoint files. */
const UNREADABLE: ReadonlySet<ShoalCode> = new Set<ShoalCode>([
  'SHOAL_NOT_FOUND',
  'SHOAL_CORRUPT',
  'SHOAL_UNSUPPORTED',
]);

/** Training must not silently restart from initial values while a checkpoint exists. */
function unreadable(directory: string, { name, isShown }: NamedCheckpoint, cause: unknown): ShoalError {
  const state = join(directory, 'checkpoint');
  // A checkpoint that Shoal saved may be on the disks of tasks that have not started yet.
  return new ShoalError(
    isShown ? 'SHOAL_UNREACHABLE' : 'SHOAL_CORRUPT',
    `The newest checkpoint of ${directory} is ${name}, which cannot be read: ${messageOf(cause)}`,
    {
      cause,
      hint: isShown
        ? `Start the tasks that hold it. To train from initial values, move ${state} away.`
        : `Restore its files, or name another one in ${state}; to train from initial values, move that file away.`,
    },
  );
}
