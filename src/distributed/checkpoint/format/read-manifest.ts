/** Reads a manifest from its first good copy, and reports damaged copies. */
import { crc32c } from '../../../base/bytes/crc32c.js';
import { describeError, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isCopyFault, isSystemError } from '../../../base/errors/system-error.js';
import type { Store } from '../../store/store.js';
import { decodeManifest, isOfOtherRelease, MAX_MANIFEST_BYTES, type Manifest } from './manifest.js';

export interface CatalogOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** Called for a problem with one manifest; the others are not affected. */
  readonly onNotice?: (line: string) => void;
}

/** A damaged copy of a blob, and the expected crc32c. */
export interface DamagedCopy {
  readonly blob: string;
  readonly place: string;
  readonly crc32c: number;
}

export interface ReadManifest {
  readonly manifest?: Manifest;
  /** Why it could not be read; undefined if it was removed after it was listed. */
  readonly error?: ShoalError;
  readonly bad: readonly DamagedCopy[];
}

export async function readManifest(
  store: Store,
  name: string,
  places: readonly string[],
  options: CatalogOptions,
): Promise<ReadManifest> {
  const problems: { readonly place: string; readonly error: unknown }[] = [];
  const tried = new Set<string>();
  // A listing returns the copies of one size. If that is the size of a damaged copy, `locate` finds the others.
  const locate = () =>
    store.locate(name, options).catch((error: unknown) => {
      options.signal?.throwIfAborted();
      if (!isCopyFault(error)) throw error;
      return [];
    });
  for (const find of [() => places, locate]) {
    for (const place of await find()) {
      if (tried.has(place)) continue;
      tried.add(place);
      try {
        const bytes = await readManifestBytes(store, name, place, options);
        const manifest = decodeManifest(bytes, `${name} at ${place}`);
        const sum = crc32c(bytes);
        const damaged = problems.filter(({ error }) => isSystemError(error) || isDamage(error));
        for (const { place: at, error } of damaged)
          options.onNotice?.(`the copy of ${name} at ${at} is skipped: ${describeError(error)}`);
        return { manifest, bad: damaged.map(({ place: at }) => ({ blob: name, place: at, crc32c: sum })) };
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!isShoalError(error) && !isCopyFault(error)) throw error;
        // It was removed after it was listed.
        if (!isShoalError(error, 'SHOAL_NOT_FOUND')) problems.push({ place, error });
      }
    }
  }
  if (problems.length === 0) return { bad: [] };
  const error = unreadableError(name, problems);
  options.onNotice?.(describeError(error));
  return { error, bad: [] };
}

const isDamage = (error: unknown): boolean => isShoalError(error, 'SHOAL_CORRUPT');

function unreadableError(
  name: string,
  problems: readonly { readonly place: string; readonly error: unknown }[],
): ShoalError {
  const other = problems.map(({ error }) => error).find(isOfOtherRelease);
  const code = other?.code ?? (problems.some(isDiskFault) ? 'SHOAL_CORRUPT' : undefined);
  const cause = other ?? problems[0]!.error;
  const why = other ? messageOf(cause) : problems.map(({ error }) => messageOf(error)).join('; ');
  return new ShoalError(code ?? 'SHOAL_UNREACHABLE', `Manifest ${name} cannot be read: ${why}`, { cause });
}

const isDiskFault = ({ error }: { readonly error: unknown }): boolean =>
  isDamage(error) || isSystemError(error);

/** Reads one copy of a manifest. */
export async function readManifestAt(
  store: Store,
  name: string,
  place: string,
  options: CatalogOptions = {},
): Promise<Manifest> {
  return decodeManifest(await readManifestBytes(store, name, place, options), `${name} at ${place}`);
}

/** Reads at most one byte above the limit, which is enough to detect a manifest that is too large. */
async function readManifestBytes(
  store: Store,
  name: string,
  place: string,
  { signal, timeoutMs }: CatalogOptions,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const end = MAX_MANIFEST_BYTES + 1;
  for await (const chunk of store.read(name, { place, end, signal, timeoutMs })) chunks.push(chunk);
  return Buffer.concat(chunks);
}
