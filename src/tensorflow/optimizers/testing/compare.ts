/** Element-wise comparison of nested numbers. */

export function flatNumbers(value: unknown): number[] {
  if (Array.isArray(value)) return value.flatMap(flatNumbers);
  return [Number(value)];
}

/**
 * The largest relative difference of two nested arrays, relative to the larger of the element and `floor`: an
 * element that results from cancellation carries the rounding errors of its larger operands.
 */
export function relativeError(ours: unknown, theirs: unknown, floor = 0): number {
  const [a, b] = [flatNumbers(ours), flatNumbers(theirs)];
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  let worst = 0;
  for (const [i, x] of a.entries()) {
    const y = b[i] as number;
    if (Object.is(x, y) || x === y) continue;
    const error = Math.abs(x - y) / Math.max(Math.abs(y), floor);
    worst = Math.max(worst, Number.isNaN(error) ? Number.POSITIVE_INFINITY : error);
  }
  return worst;
}
