/**
 * A small note of a job beside its checkpoints, such as what its evaluator has decided. Every task has a copy, so that it
 * survives the loss of any of them, and each change has a number: a copy on a task that was absent misleads nobody.
 *
 *   <namespace>/notes/<job>/<name>/<revision>.json
 *
 * One task writes it. The others only read.
 */
import { isShoalError } from '../../../base/errors/errors.js';
import type { Store, StoreCallOptions } from '../../store/store.js';
import { within } from '../format/names.js';
import { decodeSealed, encodeSealed } from '../format/sealed-json.js';

export interface NotePlace {
  readonly store: Store;
  readonly namespace: string;
  readonly job: string;
  /** The name of the note. */
  readonly note: string;
}

export interface FoundNote {
  readonly revision: number;
  readonly value: unknown;
}

const MAX_BYTES = 1 << 20;
const NAME = /\/(\d{12,})\.json$/;
const KIND = 'a note of a job';

const prefixOf = ({ namespace, job, note }: NotePlace): string => within(namespace, `notes/${job}/${note}/`);

/** The newest version that a reachable place has; `after`: undefined unless it is newer than this revision. */
export async function readNote(
  place: NotePlace,
  {
    after = 0,
    onUnanswered,
    ...options
  }: StoreCallOptions & { readonly after?: number; readonly onUnanswered?: (place: string) => void } = {},
): Promise<FoundNote | undefined> {
  const { store } = place;
  const found: { readonly revision: number; readonly name: string; readonly places: readonly string[] }[] =
    [];
  for await (const { name, places } of store.list(prefixOf(place), { ...options, onUnanswered })) {
    const revision = Number(NAME.exec(name)?.[1] ?? -1);
    if (revision > after) found.push({ revision, name, places });
  }
  for (const { revision, name, places } of found.sort((a, b) => b.revision - a.revision))
    for (const from of places) {
      const value = await readCopy(store, name, from, options);
      if (value !== undefined) return { revision, value };
    }
  return undefined;
}

/** Undefined if the copy is damaged, or was replaced by a newer version after it was listed. */
async function readCopy(
  store: Store,
  name: string,
  place: string,
  options: StoreCallOptions,
): Promise<unknown> {
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of store.read(name, { ...options, place, end: MAX_BYTES + 1 }))
      chunks.push(Uint8Array.from(chunk));
    return decodeSealed(Buffer.concat(chunks), `${name} at ${place}`, KIND);
  } catch (error) {
    options.signal?.throwIfAborted();
    if (isShoalError(error)) return undefined;
    throw error;
  }
}

/** Writes a version to all places, and removes the older ones. */
export async function writeNote(
  place: NotePlace,
  { revision, value }: FoundNote,
  options: StoreCallOptions = {},
): Promise<void> {
  const { store } = place;
  const name = `${prefixOf(place)}${String(revision).padStart(12, '0')}.json`;
  const bytes = encodeSealed(value, { what: `The note ${name}`, maxBytes: MAX_BYTES });
  await store.put(name, bytes, { ...options, copies: 'everywhere' });
  for await (const { name: other } of store.list(prefixOf(place), options)) {
    const old = Number(NAME.exec(other)?.[1] ?? Number.POSITIVE_INFINITY);
    if (old < revision) await store.remove(other, options);
  }
}

/** Removes all versions. */
export async function removeNote(place: NotePlace, options: StoreCallOptions = {}): Promise<void> {
  const { store } = place;
  for await (const { name } of store.list(prefixOf(place), options))
    if (NAME.test(name)) await store.remove(name, options);
}
