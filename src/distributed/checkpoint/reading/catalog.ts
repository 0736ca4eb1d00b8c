/** Lists the checkpoints of a namespace, checks their health, and removes them. */
import type { ShoalError } from '../../../base/errors/errors.js';
import { isCopyFault } from '../../../base/errors/system-error.js';
import type { BlobInfo, Store } from '../../store/store.js';
import type { Manifest, ManifestFile } from '../format/manifest.js';
import {
  type AttemptStamp,
  fileBlob,
  isOfCheckpoints,
  manifestBlob,
  manifestsPrefix,
  parseFileBlob,
  parseManifestBlob,
  stampOf,
} from '../format/names.js';
import { type CatalogOptions, type DamagedCopy, readManifest } from '../format/read-manifest.js';

export type { CatalogOptions } from '../format/read-manifest.js';

export interface FileHealth {
  readonly entry: ManifestFile;
  /** The places that currently hold a copy of the right size. */
  readonly places: readonly string[];
}

export interface CheckpointHealth {
  readonly files: readonly FileHealth[];
  /** Files without a reachable copy. */
  readonly missing: readonly string[];
}

export interface CatalogListOptions extends CatalogOptions {
  /** Cache of manifests by blob name; manifests never change. Entries of removed manifests are dropped. */
  readonly known?: Map<string, Manifest>;
}

/** A checkpoint whose manifest exists but cannot be read. Only its name is known. */
export interface UnreadableManifest {
  readonly name: string;
  readonly sequence: number;
  readonly step: number;
  readonly attempt: string;
  /** The places that hold a copy. */
  readonly places: readonly string[];
  /**
   * SHOAL_UNREACHABLE: no copy was reachable, none is damaged. SHOAL_VERSION_MISMATCH, SHOAL_UNSUPPORTED: this release
   * of Shoal cannot read it.
   */
  readonly error: ShoalError;
}

export interface Survey {
  /** Newest first. */
  readonly manifests: readonly Manifest[];
  /** Newest first. If there are any, the job has checkpoints even when `manifests` is empty. */
  readonly unreadable: readonly UnreadableManifest[];
  /** Damaged copies of manifests that were read from another copy. */
  readonly damaged: readonly DamagedCopy[];
  /** Places that did not answer: they may hold further checkpoints. */
  readonly unanswered: readonly string[];
}

/** All checkpoints of a namespace, including unreadable ones. */
export async function surveyCheckpoints(
  store: Store,
  namespace: string,
  { known = new Map(), ...options }: CatalogListOptions = {},
): Promise<Survey> {
  const found = new Map<string, Manifest>();
  const unreadable: UnreadableManifest[] = [];
  const damaged: DamagedCopy[] = [];
  const unanswered: string[] = [];
  const { signal, timeoutMs } = options;
  const onUnanswered = (place: string) => unanswered.push(place);
  const listed = store.list(manifestsPrefix(namespace), { signal, timeoutMs, onUnanswered });
  for await (const { name, places } of listed) {
    const parsed = parseManifestBlob(name);
    if (!parsed) continue;
    const before = known.get(name);
    const { manifest, error, bad } = before
      ? { manifest: before, error: undefined, bad: [] }
      : await readManifest(store, name, places, options);
    if (manifest) found.set(name, manifest);
    else if (error) unreadable.push({ name, ...parsed, places, error });
    damaged.push(...bad);
  }
  known.clear();
  for (const [name, manifest] of found) known.set(name, manifest);
  return {
    manifests: [...found.values()].sort(newestFirst),
    unreadable: unreadable.sort((a, b) => b.sequence - a.sequence || (a.name < b.name ? 1 : -1)),
    damaged,
    unanswered,
  };
}

/** Newest first. Unreadable manifests are logged and omitted: see `surveyCheckpoints`. */
export async function listCheckpoints(
  store: Store,
  namespace: string,
  options: CatalogListOptions = {},
): Promise<Manifest[]> {
  return [...(await surveyCheckpoints(store, namespace, options)).manifests];
}

export function newestFirst(a: Manifest, b: Manifest): number {
  return (
    b.sequence - a.sequence ||
    b.chief.incarnation - a.chief.incarnation ||
    b.step - a.step ||
    (a.attempt < b.attempt ? 1 : -1)
  );
}

/**
 * The sequence number of the next save: above all manifests and, given the chief's incarnation, above all attempts of
 * earlier chiefs. An earlier chief that was only frozen may still publish its manifest later: it must count as older.
 */
export async function nextSequence(
  store: Store,
  namespace: string,
  { incarnation, ...options }: CatalogOptions & { readonly incarnation?: number | undefined } = {},
): Promise<number> {
  let highest = 0;
  const blobs =
    incarnation === undefined
      ? store.list(manifestsPrefix(namespace), options)
      : blobsOfCheckpoints(store, namespace, options);
  for await (const { name } of blobs) {
    highest = Math.max(highest, parseManifestBlob(name)?.sequence ?? 0);
    const stamp = stampOf(parseFileBlob(namespace, name)?.attempt ?? '');
    if (incarnation !== undefined && stamp && stamp.incarnation < incarnation)
      highest = Math.max(highest, stamp.sequence);
  }
  return highest + 1;
}

/** Manifests and files of attempts. Other blobs may be the user's: large, or unreadable. */
function blobsOfCheckpoints(
  store: Store,
  namespace: string,
  { signal, timeoutMs }: CatalogOptions,
): AsyncIterable<BlobInfo> {
  const skip = (name: string) => !isOfCheckpoints(namespace, name);
  return store.list(namespace === '' ? '' : `${namespace}/`, { signal, timeoutMs, skip });
}

/** Where the files of a checkpoint currently are. */
export async function healthOf(
  store: Store,
  namespace: string,
  manifest: Pick<Manifest, 'prefix' | 'attempt' | 'files'>,
  options: CatalogOptions = {},
): Promise<CheckpointHealth> {
  const files = await Promise.all(
    manifest.files.map(async (entry) => {
      const blob = fileBlob(namespace, manifest, entry.file);
      return { entry, places: await placesOf(store, blob, entry.size, options) };
    }),
  );
  const missing = files.filter(({ places }) => places.length === 0).map(({ entry }) => entry.file);
  return { files, missing };
}

/** The places with a copy of that size; copies elsewhere may be truncated or too long. */
async function placesOf(
  store: Store,
  blob: string,
  size: number,
  { signal, timeoutMs }: CatalogOptions,
): Promise<readonly string[]> {
  const bounds = { signal, timeoutMs };
  // An unreadable copy does not count.
  const none = (error: unknown) => {
    signal?.throwIfAborted();
    if (!isCopyFault(error)) throw error;
    return undefined;
  };
  const info = await store.stat(blob, bounds).catch(none);
  if (info === undefined || info.size === size) return info?.places ?? [];
  const places = await store.locate(blob, bounds);
  const each = await Promise.all(places.map((place) => store.stat(blob, { ...bounds, place }).catch(none)));
  return places.filter((_, i) => each[i]?.size === size);
}

/** Removes a checkpoint. It stops existing once its manifest is removed. */
export async function removeCheckpoint(
  store: Store,
  namespace: string,
  manifest: Manifest,
  options: CatalogOptions = {},
): Promise<void> {
  const { signal, timeoutMs } = options;
  await store.remove(manifestBlob(namespace, manifest), { signal, timeoutMs });
  await Promise.all(
    manifest.files.map(({ file }) =>
      store.remove(fileBlob(namespace, manifest, file), { signal, timeoutMs }),
    ),
  );
}

/** Blobs without a stamp belong to a push; they are kept for as long as a push may take. */
const UNSTAMPED_MS = 24 * 3_600_000;

/**
 * Removes blobs of abandoned attempts, which no manifest names; returns how many. Abandoned are attempts of this
 * incarnation of the chief before the given, committed one, and attempts of earlier incarnations that wrote nothing
 * since it began. Attempts of a concurrent chief are kept. An earlier chief that was only frozen may still publish a
 * manifest: its attempt is removed only if that manifest would not be the newest.
 */
export async function sweepAttempts(
  store: Store,
  namespace: string,
  last: AttemptStamp & { readonly attempt: string },
  { signal, timeoutMs, nowMs = Date.now() }: CatalogOptions & { readonly nowMs?: number | undefined } = {},
): Promise<number> {
  const committed = new Set<string>();
  const others: { name: string; attempt: string; modifiedMs: number }[] = [];
  for await (const { name, modifiedMs } of blobsOfCheckpoints(store, namespace, {
    signal,
    timeoutMs,
  })) {
    const manifest = parseManifestBlob(name);
    if (manifest) committed.add(manifest.attempt);
    const file = parseFileBlob(namespace, name);
    if (file) others.push({ name, attempt: file.attempt, modifiedMs });
  }
  const times = (attempt: string) =>
    others.flatMap((other) => (other.attempt === attempt ? [other.modifiedMs] : []));
  const begun = Math.min(...times(last.attempt));
  const isDead = ({ attempt, modifiedMs }: (typeof others)[number]): boolean => {
    if (committed.has(attempt)) return false;
    const stamp = stampOf(attempt);
    if (stamp === undefined) return nowMs - modifiedMs > UNSTAMPED_MS;
    const { incarnation, sequence } = stamp;
    if (sequence >= last.sequence || incarnation > last.incarnation) return false;
    return incarnation === last.incarnation || Math.max(...times(attempt)) < begun;
  };
  const dead = others.filter(isDead);
  for (const { name } of dead) await store.remove(name, { signal, timeoutMs });
  return dead.length;
}
