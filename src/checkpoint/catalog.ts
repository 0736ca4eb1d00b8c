/** The checkpoints of a namespace: which there are, and how healthy each is. */
import { isShoalError, messageOf } from '../errors/errors.js';
import type { Store } from '../store/store.js';
import { decodeManifest, MAX_MANIFEST_BYTES, type Manifest, type ManifestFile } from './manifest.js';
import {
  type AttemptStamp,
  fileBlob,
  manifestBlob,
  manifestsPrefix,
  parseFileBlob,
  parseManifestBlob,
  stampOf,
} from './names.js';

export interface CatalogOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** Something is wrong with one of them; the others go on. */
  readonly onNotice?: ((line: string) => void) | undefined;
}

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

/** Newest first. A manifest that is damaged everywhere is told of and left out. */
export async function listCheckpoints(
  store: Store,
  namespace: string,
  { known = new Map(), ...options }: ListOptions = {},
): Promise<Manifest[]> {
  const found = new Map<string, Manifest>();
  for await (const { name, places } of store.list(manifestsPrefix(namespace), options)) {
    if (!parseManifestBlob(name)) continue;
    const manifest = known.get(name) ?? (await readManifest(store, name, places, options));
    if (manifest) found.set(name, manifest);
  }
  known.clear();
  for (const [name, manifest] of found) known.set(name, manifest);
  return [...found.values()].sort(newestFirst);
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
  const prefix = life === undefined ? manifestsPrefix(namespace) : folderOf(namespace);
  for await (const { name } of store.list(prefix, options)) {
    highest = Math.max(highest, parseManifestBlob(name)?.sequence ?? 0);
    const stamp = stampOf(parseFileBlob(namespace, name)?.attempt ?? '');
    if (life !== undefined && stamp && stamp.incarnation < life) highest = Math.max(highest, stamp.sequence);
  }
  return highest + 1;
}

const folderOf = (namespace: string): string => (namespace === '' ? '' : `${namespace}/`);

async function readManifest(
  store: Store,
  name: string,
  places: readonly string[],
  options: CatalogOptions,
): Promise<Manifest | undefined> {
  let problem: unknown;
  const tried = new Set<string>();
  // A listing tells the copies of one size; where that is the size of a damaged one, the others are looked for.
  for (const find of [() => places, () => store.locate(name, options)]) {
    for (const place of await find()) {
      if (tried.has(place)) continue;
      tried.add(place);
      try {
        return await readManifestAt(store, name, place, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!isShoalError(error)) throw error;
        // One that was removed since it was listed is as if it had not been there.
        if (!isShoalError(error, 'SHOAL_NOT_FOUND')) problem = error;
      }
    }
  }
  if (problem !== undefined) options.onNotice?.(messageOf(problem));
  return undefined;
}

/** One copy of a manifest. */
export async function readManifestAt(
  store: Store,
  name: string,
  place: string,
  options: CatalogOptions = {},
): Promise<Manifest> {
  const { signal, timeoutMs } = options;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of store.read(name, { place, end: MAX_MANIFEST_BYTES, signal, timeoutMs })) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > MAX_MANIFEST_BYTES) break;
  }
  return decodeManifest(Buffer.concat(chunks), `${name} at ${place}`);
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
  const info = await store.stat(blob, bounds);
  if (info === undefined || info.size === size) return info?.places ?? [];
  const places = await store.locate(blob, bounds);
  const each = await Promise.all(places.map((place) => store.stat(blob, { ...bounds, place })));
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
  for await (const { name, modifiedMs } of store.list(folderOf(namespace), { signal, timeoutMs })) {
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
