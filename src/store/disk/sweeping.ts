/** Unfinished files that crashed or interrupted writers have left: removed at the start, and every hour. */
import { messageOf } from '../../errors/errors.js';
import type { Store } from '../store.js';

export const SWEEP_EVERY_MS = 3_600_000;

export type Log = ((line: string) => void) | undefined;

/** Sweeps at once and every hour until the function that it gives is called. */
export function sweepHourly(sweep: (isFirst: boolean) => Promise<number>, log: Log): () => void {
  const run = (isFirst: boolean) => report(sweep(isFirst), log);
  run(true);
  const timer = setInterval(() => run(false), SWEEP_EVERY_MS).unref();
  return () => clearInterval(timer);
}

/**
 * Sweeps a store that only this process writes to: what is older than the process was left by an earlier one. In any other
 * store somebody may be writing, and only what nobody has touched for an hour goes.
 */
export function sweepOwn(store: Pick<Store, 'sweep'>): Promise<number> {
  return store.sweep({ olderThanMs: Date.now() - performance.timeOrigin });
}

/** Nobody waits for a sweep, and that it fails ends nothing. */
export function report(swept: Promise<number>, log: Log): void {
  swept.then(
    (count) => {
      if (count > 0) log?.(`removed ${count} unfinished files that earlier writers had left`);
    },
    (error: unknown) => log?.(`unfinished files could not be removed: ${messageOf(error)}`),
  );
}
