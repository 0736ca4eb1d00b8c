/** Retention policy: which checkpoints may be removed. */
import type { Manifest } from '../format/manifest.js';

export interface Retention {
  /** How many of the newest are kept; 0 or less keeps all. */
  readonly keep: number;
  /** In addition, one checkpoint per this many hours is kept forever. */
  readonly everyHours?: number;
  /** Attempts that are kept at any age, e.g. the best by some metric, or one that is being read. */
  readonly pinned?: ReadonlySet<string>;
  /** Attempts that a restore has skipped as damaged or incomplete: they do not count among the newest. */
  readonly skipped?: ReadonlySet<string>;
}

const HOUR_MS = 3_600_000;

/** The checkpoints that may be removed, oldest first, from a list with the newest first. The newest is always kept. */
export function expired(
  manifests: readonly Manifest[],
  { keep, everyHours, pinned, skipped }: Retention,
): readonly Manifest[] {
  if (keep <= 0) return [];
  const last = manifests.filter(({ attempt }) => !skipped?.has(attempt))[keep - 1];
  if (!last) return [];
  const old = manifests.slice(manifests.indexOf(last) + 1).reverse();
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
