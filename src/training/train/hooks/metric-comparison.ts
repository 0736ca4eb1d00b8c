/** Comparison of two values of a metric. */
export type Mode = 'min' | 'max';

/** NaN is never better, and any number is better than NaN. */
export function isBetter(value: number, than: number, mode: Mode, minDelta = 0): boolean {
  if (Number.isNaN(value)) return false;
  if (Number.isNaN(than)) return true;
  return mode === 'min' ? value < than - minDelta : value > than + minDelta;
}
