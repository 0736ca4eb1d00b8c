/** The checkpoints of a namespace: which there are, and how healthy each is. */
import type { ShoalError } from '../errors/errors.js';
import { isCopyFault } from '../errors/system-error.js';
import type { BlobInfo, Store } from '../store/store.js';
import type { Manifest, ManifestFile } from './manifest.js';
import {
  type AttemptStamp,
  fileBlob,
  isOfCheckpoints,
  manifestBlob,
  manifestsPrefix,
  parseFileBlob,
  parseManifestBlob,
  stampOf,
} from './names.js';
import { type CatalogOptions, type DamagedCopy, readManifest } from './read-manifest.js';

export type { CatalogOptions } from './read-manifest.js';

export interface FileHealth {
  readonly entry: ManifestFile;
  /** Who has a copy of the right size now. */
  readonly places: readonly string[];
}

export interface Health {
  readonly files: readonly FileHealth[];
  /** Files of which no copy is in reach. */
  readonly missing: readonly string[];
}

export interface ListOptions extends CatalogOptions {
  /** Manifests that were read before, by name: they never change. Those that are gone are forgotten. */
  readonly known?: Map<string, Manifest> | undefined;
}

/** A checkpoint whose manifest exists, but can not be read: its name is all that is known of it. */
export interface UnreadableManifest {
  readonly name: string;
  readonly sequence: number;
  readonly step: number;
  readonly attempt: string;
  /** Who has a copy. */
  readonly places: readonly string[];
  /** SHOAL_UNREACHABLE where no copy could be read, and none is damaged; SHOAL_UNSUPPORTED where this version of Shoal is to blame, and not a disk. */
  readonly error: ShoalError;
}

export interface Survey {
  /** Newest first. */
  readonly manifests: readonly Manifest[];
  /** Newest first. That there are some means that the job has checkpoints, whatever `manifests` has. */
  readonly unreadable: readonly UnreadableManifest[];
  /** Copies of readable manifests that were passed over for a good one. */
  readonly damaged: readonly DamagedCopy[];
  /** Places that were not heard: they may hold checkpoints that are not among these. */
  readonly unanswered: readonly string[];
}

/** All checkpoints of a namespace, those included that can not be read. */
export async function surveyCheckpoints(
  store: Store,
  namespace: string,
  { known = new Map(), ...options }: ListOptions = {},
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

/** Newest first. A manifest that can not be read is logged and left out: see `surveyCheckpoints`. */
export async function listCheckpoints(
  store: Store,
  namespace: string,
  options: ListOptions = {},
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
 * The sequence for the next save: above all manifests and, with the life of a chief, above all attempts of earlier ones. An
 * earlier chief that was only paused may publish the manifest of its attempt later: it must count as older.
 */
export async function nextSequence(
  store: Store,
  namespace: string,
  { life, ...options }: CatalogOptions & { readonly life?: number | undefined } = {},
): Promise<number> {
  let highest = 0;
  const blobs =
    life === undefined
      ? store.list(manifestsPrefix(namespace), options)
      : blobsOfCheckpoints(store, namespace, options);
  for await (const { name } of blobs) {
    highest = Math.max(highest, parseManifestBlob(name)?.sequence ?? 0);
    const stamp = stampOf(parseFileBlob(namespace, name)?.attempt ?? '');
    if (life !== undefined && stamp && stamp.incarnation < life) highest = Math.max(highest, stamp.sequence);
  }
  return highest + 1;
}

/** Manifests and files of attempts. What else is there may be the user's: large, or not to be read. */
function blobsOfCheckpoints(
  store: Store,
  namespace: string,
  { signal, timeoutMs }: CatalogOptions,
): AsyncIterable<BlobInfo> {
  const skip = (name: string) => !isOfCheckpoints(namespace, name);
  return store.list(namespace === '' ? '' : `${namespace}/`, { signal, timeoutMs, skip });
}

/** Where the files of a checkpoint are at the moment. */
export async function healthOf(
  store: Store,
  namespace: string,
  manifest: Manifest,
  options: CatalogOptions = {},
): Promise<Health> {
  const files = await Promise.all(
    manifest.files.map(async (entry) => {
      const blob = fileBlob(namespace, manifest, entry.file);
      return { entry, places: await placesOf(store, blob, entry.size, options) };
    }),
  );
  const missing = files.filter(({ places }) => places.length === 0).map(({ entry }) => entry.file);
  return { files, missing };
}

/** Who has a copy of that size; others may have one that was cut off, or a longer one. */
async function placesOf(
  store: Store,
  blob: string,
  size: number,
  { signal, timeoutMs }: CatalogOptions,
): Promise<readonly string[]> {
  const bounds = { signal, timeoutMs };
  // A copy that can not be looked at is none.
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

/** Removes a checkpoint: it is none from the moment that its manifest is gone. */
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

/** Blobs without a stamp, of a push, are left alone for as long as one may take. */
const UNSTAMPED_MS = 24 * 3_600_000;

/**
 * Removes blobs of attempts that no manifest names and nobody is at any more; tells how many. Those are attempts of
 * this life of the chief that came before the given one, which is committed, and attempts of earlier lives that wrote
 * nothing since it was begun. What a chief that lives at the same time is at is left alone. An earlier chief that was only
 * paused may yet publish a manifest of its attempt: it is swept only where that manifest would not be the newest.
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
