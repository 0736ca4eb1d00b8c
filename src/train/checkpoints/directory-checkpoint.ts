/**
 * The checkpoint that a training directory names and the store does not have, as after training with Python's TensorFlow:
 * when it is to be restored, and how it comes into the store.
 */
import { join } from 'node:path';
import type { Survey } from '../../checkpoint/catalog.js';
import type { Checkpoints } from '../../checkpoint/checkpoints.js';
import { type NamedCheckpoint, namedCheckpoint } from '../../checkpoint/directory-state.js';
import type { RestoreReport, RestoreRequest } from '../../checkpoint/restore.js';
import { pushCheckpoint } from '../../checkpoint/transfer.js';
import { isShoalError, messageOf, type ShoalCode, ShoalError } from '../../errors/errors.js';
import type { Store } from '../../store/store.js';

export interface DirectoryOptions {
  readonly directory: string;
  readonly job?: string | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

/**
 * The checkpoint that the directory names, where it is to be restored: the store has none, or somebody else has trained in
 * this directory since Shoal saved its newest.
 */
export async function checkpointInDirectory(
  { manifests, unreadable }: Pick<Survey, 'manifests' | 'unreadable'>,
  { directory, job, log }: DirectoryOptions,
): Promise<NamedCheckpoint | undefined> {
  const [newest] = manifests;
  if (!newest) return unreadable.length > 0 ? undefined : namedCheckpoint(directory, job);
  const found = await namedCheckpoint(directory).catch((error: unknown) => {
    log?.(`${messageOf(error)}; the newest checkpoint is ${newest.prefix} of the store`);
    return undefined;
  });
  // In a directory in which Shoal has shown nothing yet, the file may be from long before: the store's is the newer one.
  if (!found || found.isShown || !found.hasView || found.modifiedMs <= newest.savedAtMs) return undefined;
  return manifests.some(({ prefix }) => prefix === found.name) ? undefined : found;
}

/** The import stays until retention removes it: it can be restored when the directory's disk is lost. */
export async function restoreFromDirectory(
  found: NamedCheckpoint,
  parts: {
    readonly checkpoints: Checkpoints;
    readonly store: Store;
    readonly namespace: string;
    readonly request: RestoreRequest;
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
      .catch((failure: unknown) => log?.(`the import could not be removed: ${messageOf(failure)}`));
    throw error;
  }
}

/** Codes that say that a checkpoint's files are missing or damaged. */
const UNREADABLE: ReadonlySet<ShoalCode> = new Set<ShoalCode>([
  'SHOAL_NOT_FOUND',
  'SHOAL_CORRUPT',
  'SHOAL_UNSUPPORTED',
]);

/** Training that starts over beside a checkpoint is never what was meant. */
function unreadable(directory: string, { name, isShown }: NamedCheckpoint, cause: unknown): ShoalError {
  const state = join(directory, 'checkpoint');
  // One that Shoal saved may be on the disks of tasks that are still to come.
  return new ShoalError(
    isShown ? 'SHOAL_UNREACHABLE' : 'SHOAL_CORRUPT',
    `The newest checkpoint of ${directory} is ${name}, which can not be read: ${messageOf(cause)}`,
    {
      cause,
      hint: isShown
        ? `Start the tasks that hold it. To train from initial values, move ${state} away.`
        : `Restore its files, or name another one in ${state}; to train from initial values, move that file away.`,
    },
  );
}
