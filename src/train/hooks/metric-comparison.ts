/** Which of two values of a metric is the better one. */
export type Mode = 'min' | 'max';

/** Not a number is never better, and anything is better than it. */
export function isBetter(value: number, than: number, mode: Mode, minDelta = 0): boolean {
  if (Number.isNaN(value)) return false;
  if (Number.isNaN(than)) return true;
  return mode === 'min' ? value < than - minDelta : value > than + minDelta;
}
