/** Exponential backoff with jitter; the random source is a parameter. */

export interface BackoffOptions {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly factor?: number;
}

/** The delay before retry number `attempt` (0 for the first). */
export function backoffMs(
  attempt: number,
  { baseMs, maxMs, factor = 2 }: BackoffOptions,
  random: () => number = Math.random,
): number {
  const ceiling = Math.min(maxMs, baseMs * factor ** attempt);
  return Math.round(ceiling / 2 + (ceiling / 2) * random());
}
