/** Types of fetch.mjs, for the TypeScript that imports it. */
import type { LibraryPlace, TensorFlowLock } from './locate.mjs';

export interface FetchOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly lock?: TensorFlowLock;
  readonly platform?: string;
  readonly signal?: AbortSignal;
  /** How long to wait for a concurrent set-up; default: 30 minutes. */
  readonly waitMs?: number;
  /** Whether a checksum library that could not be installed is tried again before a day has passed; default: false. */
  readonly retriesAll?: boolean;
  /** Logs a line for each action. */
  readonly log?: (line: string) => void;
}

export function fetchTensorFlow(
  options?: FetchOptions,
): Promise<LibraryPlace & { readonly fetched: boolean }>;
/** The bytes that must be free in the cache for a set-up. */
export function spaceNeeded(pin: import('./locate.mjs').Pin, haveWheel?: boolean): number;
