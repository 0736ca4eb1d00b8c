/**
 * Finds TensorFlow's libraries on this machine. The search is shared with the setup scripts, which run before any
 * TypeScript; this file adds Shoal's types and errors.
 */
import {
  cacheDir,
  crc32cLibrary,
  type LibraryPlace,
  type SearchedPlace,
  search,
} from '../../../../scripts/setup/locate.mjs';
import { messageOf, type ShoalCode, ShoalError } from '../../../base/errors/errors.js';

export type { LibrarySource, SearchedPlace } from '../../../../scripts/setup/locate.mjs';

export interface LocatedLibrary extends LibraryPlace {
  readonly searched: readonly SearchedPlace[];
  /** The TensorFlow version that this version of Shoal is built for. */
  readonly pinnedVersion: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The directory for libraries that setup downloaded. */
export function cacheFolder(env: Environment = process.env): string {
  return cacheDir(env);
}

/** Finds the libraries; throws SHOAL_LIBRARY with every searched path if they are missing. */
export function locateTensorFlow(env: Environment = process.env): LocatedLibrary {
  const { found, searched, pin } = searchPlaces(env);
  if (found) return { ...found, searched, pinnedVersion: pin?.version };
  const places = searched.map(({ place, why }) => `\n  - ${place}: ${why}`).join('');
  throw new ShoalError('SHOAL_LIBRARY', `TensorFlow's libraries were not found. Searched:${places}`, {
    hint: hintFor(env),
  });
}

/** The search result without an error for missing libraries, for diagnostics. */
export function searchPlaces(env: Environment = process.env): ReturnType<typeof search> {
  try {
    return search({ env });
  } catch (error) {
    throw asShoalError(error);
  }
}

/** The checksum library that set-up has installed; undefined if there is none, or if directories cannot be read. */
export function locateCrc32c(env: Environment = process.env): string | undefined {
  try {
    return crc32cLibrary({ env });
  } catch {
    return undefined;
  }
}

function hintFor(env: Environment): string {
  if (env.SHOAL_TF_DIR) return 'Set SHOAL_TF_DIR to the directory that contains both libraries, or unset it.';
  if (env.SHOAL_TF === 'python') {
    return 'Run `npx shoal setup` with SHOAL_TF=python, in the Python environment that has TensorFlow.';
  }
  return 'Run `npx shoal setup`; it downloads them once for all checkouts of this user.';
}

/** Converts errors of the setup scripts, which have their own class with the same codes. */
export function asShoalError(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== 'SetupError') return error;
  const { code, hint } = error as Error & { code: ShoalCode; hint?: string };
  return new ShoalError(code, messageOf(error), { hint, cause: error });
}
