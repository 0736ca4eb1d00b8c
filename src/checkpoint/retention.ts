/** Which checkpoints may go. A policy is a small object; what it keeps, stays. */
import type { Manifest } from './manifest.js';

export interface Retention {
  /** How many of the newest stay; 0 or less keeps all. */
  readonly keep: number;
  /** Besides, one for every so many hours of training stays for good. */
  readonly everyHours?: number | undefined;
  /** Attempts that stay whatever their age: the best by some metric, one that somebody reads. */
  readonly pinned?: ReadonlySet<string> | undefined;
}

const HOUR_MS = 3_600_000;

/** The checkpoints that may go, oldest first; given newest first. The newest never goes. */
export function expired(
  manifests: readonly Manifest[],
  { keep, everyHours, pinned }: Retention,
): readonly Manifest[] {
  if (keep <= 0) return [];
  const old = manifests.slice(Math.max(1, keep)).reverse();
  let lastKept = Number.NEGATIVE_INFINITY;
  return old.filter(({ attempt, savedAtMs }) => {
    if (pinned?.has(attempt)) return false;
    if (everyHours !== undefined && savedAtMs - lastKept >= everyHours * HOUR_MS) {
      lastKept = savedAtMs;
      return false;
    }
    return true;
  });
}
