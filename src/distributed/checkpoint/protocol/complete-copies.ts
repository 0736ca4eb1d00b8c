/**
 * After a commit: makes the copies of shards that were lost during the save. A task that held one may have been replaced by
 * one with an empty disk: the next loss would take the file.
 */
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { parseDataFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Store } from '../../store/store.js';
import type { Manifest } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import { type FileHealth, healthOf } from '../reading/catalog.js';

export interface CompleteCopiesOptions {
  readonly signal?: AbortSignal | undefined;
  /** The time for all copies. Default: 5 minutes. */
  readonly limitMs?: number | undefined;
  readonly log?: Log | undefined;
}

export interface CompletedCopies {
  /** Files without a good copy. */
  readonly missing: readonly string[];
  /** How many copies were lost and could not be made again. */
  readonly lacking: number;
}

const LIMIT_MS = 300_000;
/** How long a task that seems to have lost its copy may take to answer: it may only be busy. */
const ANSWER_MS = 30_000;

export async function completeCopies(
  store: Store,
  namespace: string,
  manifest: Manifest,
  { signal: stop, limitMs = LIMIT_MS, log }: CompleteCopiesOptions = {},
): Promise<CompletedCopies> {
  const limit = AbortSignal.timeout(limitMs);
  const signal = stop ? AbortSignal.any([stop, limit]) : limit;
  const { files, missing } = await healthOf(store, namespace, manifest);
  // Index and graph are small, and everywhere.
  const short = files.filter(
    ({ entry, places }) =>
      parseDataFile(entry.file) !== undefined && places.length > 0 && places.length < entry.places.length,
  );
  const found = await Promise.all(
    short.map((file) =>
      completeFile(store, fileBlob(namespace, manifest, file.entry.file), file, signal, log),
    ),
  );
  if (limit.aborted && !stop?.aborted)
    log?.(`${manifest.prefix}: lost copies could not be made again in ${limitMs / 1000} s`, 'warn');
  const damaged = short.filter((_, i) => found[i] === 0).map(({ entry }) => entry.file);
  return {
    missing: [...missing, ...damaged],
    lacking: short.reduce((sum, { entry }, i) => sum + Math.max(0, entry.places.length - found[i]!), 0),
  };
}

/** Returns how many good copies there are then. */
async function completeFile(
  store: Store,
  blob: string,
  { entry, places }: FileHealth,
  signal: AbortSignal,
  log: Log | undefined,
): Promise<number> {
  const { file, size, crc32c } = entry;
  const wanted = entry.places.length;
  const silent = entry.places.filter((place) => !places.includes(place));
  const answers = await Promise.all(
    silent.map((place) => store.stat(blob, { place, signal, timeoutMs: ANSWER_MS }).catch(() => undefined)),
  );
  const holders = [...places, ...silent.filter((_, i) => answers[i]?.size === size)];
  if (holders.length >= wanted) return holders.length;
  const adding = store.addCopies?.(blob, { signal, holders, wanted, crc32c });
  const now =
    (await adding?.catch((error: unknown) => {
      if (!signal.aborted) log?.(`${file} could not be copied: ${describeError(error)}`, 'warn');
      return undefined;
    })) ?? holders;
  const added = now.filter((place) => !holders.includes(place));
  const lost = silent.filter((place) => !holders.includes(place)).join(', ');
  if (added.length > 0) log?.(`${file} was copied to ${added.join(', ')}: the copy of ${lost} is lost`);
  if (now.length >= wanted || signal.aborted) return now.length;
  // The cause may be the copy that was read.
  const sums = await Promise.all(
    now.map((place) => store.digest(blob, { place, signal }).catch(() => undefined)),
  );
  const bad = now.filter((_, i) => sums[i] !== undefined && sums[i].crc32c !== crc32c);
  if (bad.length > 0) log?.(`${file} is damaged at ${bad.join(', ')}`, 'error');
  return sums.filter((sum) => sum?.crc32c === crc32c).length;
}
