/** Callbacks of `fit`. */
import { invalid } from '../../../base/errors/errors.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { NO_VALUES, nextValue } from '../../../training/train/hooks/metric-comparison.js';
import { checkCallback, type FitCallback, MONITOR_NAMES, Monitor, type MonitorOptions } from './callback.js';

export type { FitCallback, FitControl, FittedModel, Logs, MonitorOptions } from './callback.js';
export {
  type CSVLoggerOptions,
  csvLogger,
  type ModelCheckpointOptions,
  modelCheckpoint,
  tensorBoard,
} from './file-callbacks.js';

/** A callback of functions. */
export function lambdaCallback(functions: Omit<FitCallback, 'inJob'>): FitCallback {
  checkCallback('lambdaCallback', functions, {
    onTrainBegin: true,
    onEpochBegin: true,
    onBatchEnd: true,
    onEpochEnd: true,
    onTrainEnd: true,
  });
  return { ...functions, inJob: 'callbacks of the job' };
}

export interface FitEarlyStoppingOptions extends MonitorOptions {
  /** Epochs in a row without an improvement after which training ends; 0 is the same as 1. Default: 0. */
  readonly patience?: number;
  /** A value that the first epochs must improve. Default: none. */
  readonly baseline?: number;
  /** Whether the model gets the weights of the best epoch at the end. Default: false. */
  readonly restoreBestWeights?: boolean;
  /** The first epoch that counts. Default: 0. */
  readonly startFromEpoch?: number;
}

/** Ends training when a value has stopped improving. */
export function earlyStopping(options: FitEarlyStoppingOptions = {}): FitCallback {
  checkCallback('earlyStopping', options, {
    ...MONITOR_NAMES,
    patience: true,
    baseline: true,
    restoreBestWeights: true,
    startFromEpoch: true,
  });
  const { patience = 0, baseline, restoreBestWeights = false, startFromEpoch = 0 } = options;
  const monitor = new Monitor(options);
  const rule = { mode: monitor.mode, minDelta: monitor.minDelta, patience };
  let watched = NO_VALUES;
  let best: Readonly<Record<string, Tensor>> | undefined;
  return {
    inJob: "train: { earlyStopping: { metric: 'eval/loss', patience } }, which counts evaluations",
    // The same callback may be used for several runs.
    onTrainBegin: () => {
      watched = { ...NO_VALUES, best: baseline ?? Number.NaN };
      best = undefined;
    },
    onEpochEnd: async (epoch, logs, control) => {
      if (epoch < startFromEpoch) return;
      const before = watched;
      watched = nextValue(before, monitor.read(logs), rule);
      if (watched.plateaus > 0) control.stop();
      else if (restoreBestWeights && watched.best !== before.best && !Number.isNaN(watched.best))
        best = await control.model.getWeights();
    },
    onTrainEnd: async (_logs, control) => {
      if (best) await control.model.setWeights(best);
    },
  };
}

export interface ReduceLROnPlateauOptions extends MonitorOptions {
  /** What the learning rate is multiplied by; default: 0.1. */
  readonly factor?: number;
  /** Epochs in a row without an improvement after which it is reduced. Default: 10. */
  readonly patience?: number;
  /** Epochs after a reduction that do not count. Default: 0. */
  readonly cooldown?: number;
  /** The lowest learning rate. Default: 0. */
  readonly minLr?: number;
}

/** Reduces the learning rate when a value has stopped improving. */
export function reduceLROnPlateau(options: ReduceLROnPlateauOptions = {}): FitCallback {
  checkCallback('reduceLROnPlateau', options, {
    ...MONITOR_NAMES,
    factor: true,
    patience: true,
    cooldown: true,
    minLr: true,
  });
  const { factor = 0.1, patience = 10, cooldown = 0, minLr = 0 } = options;
  if (!(factor > 0 && factor < 1))
    throw invalid(`factor of reduceLROnPlateau must be between 0 and 1; it is ${factor}`);
  const monitor = new Monitor({ minDelta: 1e-4, ...options });
  const rule = { mode: monitor.mode, minDelta: monitor.minDelta, patience, cooldown };
  let watched = NO_VALUES;
  return {
    inJob: "train: { reduceLearningRate: { metric: 'eval/loss' } }",
    onTrainBegin: () => {
      watched = NO_VALUES;
    },
    onEpochEnd: async (epoch, logs, control) => {
      const { plateaus } = watched;
      watched = nextValue(watched, monitor.read(logs), rule);
      if (watched.plateaus === plateaus) return;
      const rate = await control.learningRate();
      if (rate <= minLr) return;
      const next = Math.max(rate * factor, minLr);
      await control.scaleLearningRate(next / rate);
      control.note(`epoch ${epoch + 1}: the learning rate is ${Number(next.toPrecision(6))}`);
    },
  };
}
