/**
 * Replaces damaged copies that a reader has skipped, in the background. The source is a copy with a correct checksum.
 * Without one nothing is changed: the good chunks of the damaged copies may be all that is left
 * (`shoal checkpoint repair` combines them).
 */
import { describeError, ShoalError } from '../../../base/errors/errors.js';
import { isCopyFault } from '../../../base/errors/system-error.js';
import type { Store } from '../../store/store.js';
import type { DamagedCopy } from '../format/read-manifest.js';

export interface ReplaceOptions {
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
}

/** Never rejects: failures are logged. */
export async function replaceDamaged(
  store: Store,
  damaged: readonly DamagedCopy[],
  { signal, log }: ReplaceOptions = {},
): Promise<void> {
  // Other stores keep one copy of a blob.
  if (store.kind !== 'peers') return;
  const unfit = new Set(damaged.map(({ blob, place }) => `${place} ${blob}`));
  for (const copy of damaged) {
    if (signal?.aborted) return;
    const { blob, place } = copy;
    try {
      const sources = (await store.locate(blob, { signal })).filter((at) => !unfit.has(`${at} ${blob}`));
      const from = await replaceCopy(store, copy, sources, signal);
      if (from !== undefined)
        log?.(`the damaged copy of ${blob} at ${place} was replaced by a copy from ${from}`);
    } catch (error) {
      log?.(`the damaged copy of ${blob} at ${place} could not be replaced: ${describeError(error)}`);
    }
  }
}

/** Resolves with the source of the new copy; undefined if the copy is good again. */
async function replaceCopy(
  store: Store,
  { blob, place, crc32c }: DamagedCopy,
  sources: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const isGood = async (at: string): Promise<boolean> => {
    try {
      return (await store.digest(blob, { place: at, signal })).crc32c === crc32c;
    } catch (error) {
      signal?.throwIfAborted();
      if (!isCopyFault(error)) throw error;
      return false;
    }
  };
  if (await isGood(place)) return undefined;
  for (const from of sources) {
    if (!(await isGood(from))) continue;
    await store.copy(blob, place, { from, signal });
    if (await isGood(place)) return from;
    await store.remove(blob, { place, signal });
    throw new ShoalError('SHOAL_CORRUPT', `the new copy at ${place} has a wrong checksum`, {
      hint: 'Its disk may be failing.',
    });
  }
  throw new ShoalError('SHOAL_CORRUPT', 'no other copy is undamaged', {
    hint: 'Run `shoal checkpoint repair`.',
  });
}
