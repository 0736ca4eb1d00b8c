/** What the manager knows about one version of a model. */
import type { VersionStatus } from '../requests.js';
import type { StatusAndMessage } from '../status.js';
import type { Servable } from './servable.js';
import type { Look } from './version-files.js';

export type VersionProgress =
  /** Seen, but not complete, or not unchanged for long enough. */
  | { readonly kind: 'incomplete'; readonly why: string }
  /** Complete and unchanged: it may be loaded. */
  | { readonly kind: 'complete' }
  | { readonly kind: 'loading' }
  | { readonly kind: 'serving'; readonly servable: Servable }
  | { readonly kind: 'unloading' }
  /** It was unloaded because another version serves. */
  | { readonly kind: 'unloaded' }
  /** It failed; it is tried again when its files have changed, but not before `retryAt`. */
  | {
      readonly kind: 'failed';
      readonly error: StatusAndMessage;
      readonly attempts: number;
      readonly retryAt: number;
    };

export interface VersionRecord {
  readonly version: number;
  readonly directory: string;
  look: Look | undefined;
  progress: VersionProgress;
  /** When the version was first seen, for the log. */
  readonly seenAt: number;
  isReported: boolean;
  failures: number;
}

export function statusOfVersion({ version, progress }: VersionRecord): VersionStatus {
  const ok = { version, code: 'OK', message: '' } as const;
  switch (progress.kind) {
    case 'incomplete':
      return { version, state: 'START', code: 'OK', message: progress.why };
    case 'complete':
      return { ...ok, state: 'START' };
    case 'loading':
      return { ...ok, state: 'LOADING' };
    case 'serving':
      return { ...ok, state: 'AVAILABLE' };
    case 'unloading':
      return { ...ok, state: 'UNLOADING' };
    case 'unloaded':
      return { ...ok, state: 'END' };
    case 'failed':
      return { version, state: 'END', code: progress.error.status, message: progress.error.message };
  }
}
