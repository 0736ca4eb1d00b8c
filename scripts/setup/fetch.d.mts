/** Types of fetch.mjs, for the TypeScript that imports it. */
import type { LibraryPlace, TensorFlowLock } from './locate.mjs';

export interface FetchOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly lock?: TensorFlowLock;
  readonly platform?: string;
  readonly signal?: AbortSignal;
  /** How long to wait for another set-up that is under way. */
  readonly waitMs?: number;
  /** Told in a line what is being done. */
  readonly say?: (line: string) => void;
}

export function fetchTensorFlow(
  options?: FetchOptions,
): Promise<LibraryPlace & { readonly fetched: boolean }>;
/** The bytes that have to be free in the cache for a set-up from nothing. */
export function spaceNeeded(pin: import('./locate.mjs').Pin, haveWheel?: boolean): number;
