/**
 * Replaces copies that a reader has passed over as damaged, in the background of whoever has read the good ones. What is
 * copied is a copy that has its sum from end to end; without one, nothing is touched: of several damaged copies the good
 * chunks may be all that is left (`shoal checkpoint repair` puts those together).
 */
import { messageOf, ShoalError } from '../errors/errors.js';
import { isCopyFault } from '../errors/system-error.js';
import type { Store } from '../store/store.js';
import type { DamagedCopy } from './read-manifest.js';

export interface ReplaceOptions {
  readonly signal?: AbortSignal | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

/** Never rejects: what fails is logged. */
export async function replaceDamaged(
  store: Store,
  damaged: readonly DamagedCopy[],
  { signal, log }: ReplaceOptions = {},
): Promise<void> {
  // Other stores have one copy of a blob.
  if (store.kind !== 'peers') return;
  const unfit = new Set(damaged.map(({ blob, place }) => `${place} ${blob}`));
  for (const copy of damaged) {
    if (signal?.aborted) return;
    const { blob, place } = copy;
    try {
      const sources = (await store.locate(blob, { signal })).filter((at) => !unfit.has(`${at} ${blob}`));
      const from = await replaceCopy(store, copy, sources, signal);
      if (from !== undefined)
        log?.(`the damaged copy of ${blob} at ${place} was replaced by that of ${from}`);
    } catch (error) {
      log?.(`the damaged copy of ${blob} at ${place} could not be replaced: ${messageOf(error)}`);
    }
  }
}

/** Resolves with the source of the new copy; undefined if none is needed, since somebody has replaced it already. */
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
    throw new ShoalError('SHOAL_CORRUPT', `what was written to ${place} reads back otherwise`, {
      hint: 'Its disk may be failing.',
    });
  }
  throw new ShoalError('SHOAL_CORRUPT', 'no other copy is good from end to end', {
    hint: 'Run `shoal checkpoint repair`.',
  });
}
