/** What `fit` calls during training. */
import { invalid } from '../../base/errors/errors.js';
import type { MaybePromise } from '../../training/train/hooks/session-run-hook.js';

/** The loss and the metrics, by name; those of the validation begin with `val_`. */
export type Logs = Readonly<Record<string, number>>;

export interface FitControl {
  /** Ends training after this batch or epoch. */
  stop(): void;
}

/** An error in a callback fails `fit`. */
export interface FitCallback {
  readonly onBatchEnd?: (batch: number, logs: Logs, control: FitControl) => MaybePromise<void>;
  /** Epochs are counted from 0. */
  readonly onEpochEnd?: (epoch: number, logs: Logs, control: FitControl) => MaybePromise<void>;
}

export interface FitEarlyStoppingOptions {
  /** Default: `val_loss`. */
  readonly monitor?: string;
  /** Epochs in a row without an improvement after which training ends; 0 is the same as 1. Default: 0. */
  readonly patience?: number;
  /** What counts as an improvement. Default: 0. */
  readonly minDelta?: number;
  /** Whether lower or higher is better; default: `max` for names that end in `accuracy` or `auc`, else `min`. */
  readonly mode?: 'min' | 'max';
}

/** Ends training when a value has stopped improving. */
export function earlyStopping({
  monitor = 'val_loss',
  patience = 0,
  minDelta = 0,
  mode = /(accuracy|auc)$/i.test(monitor) ? 'max' : 'min',
}: FitEarlyStoppingOptions = {}): FitCallback {
  let best: number | undefined;
  let waited = 0;
  return {
    onEpochEnd: (epoch, logs, control) => {
      const value = logs[monitor];
      if (value === undefined)
        throw invalid(`There is no value '${monitor}'; there are ${Object.keys(logs).join(', ')}`, {
          ...(monitor.startsWith('val_') && { hint: 'Give validationData to fit.' }),
        });
      // The same callback may be used for several runs.
      if (epoch === 0) best = undefined;
      const gain =
        best === undefined ? Number.POSITIVE_INFINITY : mode === 'min' ? best - value : value - best;
      if (gain > minDelta) {
        best = value;
        waited = 0;
      } else if (++waited >= Math.max(1, patience)) control.stop();
    },
  };
}
