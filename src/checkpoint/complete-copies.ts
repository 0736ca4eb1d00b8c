/**
 * Makes the copies of shards that a checkpoint lacks. A task that held one may have been lost, and be back with an empty
 * disk: the next loss would take the file.
 */
import { ShoalError } from '../errors/errors.js';
import type { Store, StoreCallOptions } from '../store/store.js';
import type { Log } from '../text/log.js';
import { healthOf } from './catalog.js';
import type { Manifest, ManifestFile } from './manifest.js';
import { fileBlob } from './names.js';

export interface CompletedCopies {
  /** The files with the places that hold them now. */
  readonly files: readonly ManifestFile[];
  /** How many copies could not be made. */
  readonly shortfall: number;
}

/** Rejects with SHOAL_UNREACHABLE if no copy of some file is left. */
export async function completeCopies(
  store: Store,
  namespace: string,
  checkpoint: Pick<Manifest, 'prefix' | 'attempt' | 'files'>,
  { log, ...options }: StoreCallOptions & { readonly log?: Log | undefined },
): Promise<CompletedCopies> {
  const { files, missing } = await healthOf(store, namespace, checkpoint, options);
  if (missing.length > 0) {
    throw new ShoalError(
      'SHOAL_UNREACHABLE',
      `${checkpoint.prefix} is not complete: no copy of ${missing.join(', ')} is left`,
      { hint: 'The only task that held it was lost, or another chief removed it.' },
    );
  }
  const completed: ManifestFile[] = [];
  let shortfall = 0;
  for (const { entry, places: holders } of files) {
    const { file, crc32c, places } = entry;
    const wanted = places.length;
    const blob = fileBlob(namespace, checkpoint, file);
    if (holders.length >= wanted) {
      completed.push(entry);
      continue;
    }
    const now = (await store.addCopies?.(blob, { ...options, holders, wanted, crc32c })) ?? holders;
    const added = now.filter((place) => !holders.includes(place));
    const lost = places.filter((place) => !holders.includes(place)).join(', ');
    if (added.length > 0) log?.(`${file} was copied to ${added.join(', ')}: the copy of ${lost} is lost`);
    completed.push({ ...entry, places: [...now] });
    shortfall += Math.max(0, wanted - now.length);
  }
  return { files: completed, shortfall };
}
