/** Comparison of two values of a metric, and of each value with the best one so far. */
export type Mode = 'min' | 'max';

const HIGHER = /(accuracy|acc|auc|precision|recall|topk|top_k|cosinesimilarity)$/i;

/** What is better for a metric of this name: `max` for accuracies, AUC, precision, recall and topK, else `min`. */
export const modeOf = (metric: string): Mode => (HIGHER.test(metric) ? 'max' : 'min');

/** NaN is never better, and any number is better than NaN. */
export function isBetter(value: number, than: number, mode: Mode, minDelta = 0): boolean {
  if (Number.isNaN(value)) return false;
  if (Number.isNaN(than)) return true;
  return mode === 'min' ? value < than - minDelta : value > than + minDelta;
}

/** When a metric has stopped improving. */
export interface PlateauRule {
  readonly mode: Mode;
  /** Values in a row without an improvement. */
  readonly patience: number;
  /** The smallest change that counts as an improvement. Default: 0. */
  readonly minDelta?: number | undefined;
  /** Values after a plateau that do not count. Default: 0. */
  readonly cooldown?: number | undefined;
}

/** How far a metric is from a plateau. */
export interface PlateauState {
  /** The best value; NaN: there is none. */
  readonly best: number;
  /** Values in a row without an improvement. */
  readonly waited: number;
  /** How often the patience has ended. */
  readonly plateaus: number;
  /** Values that do not count. */
  readonly resting: number;
}

export const NO_VALUES: PlateauState = { best: Number.NaN, waited: 0, plateaus: 0, resting: 0 };

/** The state after one more value. A rest counts down before the value counts, as in Keras. */
export function nextValue(
  { best, waited, plateaus, resting }: PlateauState,
  value: number,
  { mode, patience, minDelta, cooldown = 0 }: PlateauRule,
): PlateauState {
  const left = Math.max(0, resting - 1);
  if (isBetter(value, best, mode, minDelta)) return { best: value, waited: 0, plateaus, resting: left };
  if (left > 0) return { best, waited: 0, plateaus, resting: left };
  const now = (resting > 0 ? 0 : waited) + 1;
  if (now < patience) return { best, waited: now, plateaus, resting: 0 };
  return { best, waited: 0, plateaus: plateaus + 1, resting: cooldown };
}
