/** Removes unfinished files of crashed or interrupted writers, at the start and every hour. */
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Store } from '../store.js';

export const SWEEP_EVERY_MS = 3_600_000;

/** Sweeps now and every hour; returns the function that stops it. */
export function sweepHourly(sweep: (isFirst: boolean) => Promise<number>, log: Log | undefined): () => void {
  const run = (isFirst: boolean) => report(sweep(isFirst), log);
  run(true);
  const timer = setInterval(() => run(false), SWEEP_EVERY_MS).unref();
  return () => clearInterval(timer);
}

/**
 * Sweeps a store that only this process writes to: files older than the process belong to an earlier one. Other stores
 * may have concurrent writers, so only files that are an hour old are removed there.
 */
export function sweepOwn(store: Pick<Store, 'sweep'>): Promise<number> {
  return store.sweep({ olderThanMs: Date.now() - performance.timeOrigin });
}

/** Logs the outcome of a sweep. A failure has no other effect. */
export function report(swept: Promise<number>, log: Log | undefined): void {
  swept.then(
    (count) => {
      if (count > 0) log?.(`removed ${count} incomplete files of earlier runs`);
    },
    (error: unknown) => log?.(`cannot remove unfinished files: ${describeError(error)}`),
  );
}
