/** Callbacks of `fit`. */
import { invalid } from '../../../base/errors/errors.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { type FitCallback, Monitor, type MonitorOptions } from './callback.js';

export type { FitCallback, FitControl, FittedModel, Logs, MonitorOptions } from './callback.js';
export {
  type CSVLoggerOptions,
  csvLogger,
  type ModelCheckpointOptions,
  modelCheckpoint,
  tensorBoard,
} from './file-callbacks.js';

/** A callback of functions. */
export const lambdaCallback = (functions: Omit<FitCallback, 'inJob'>): FitCallback => ({
  ...functions,
  inJob: 'callbacks of the job',
});

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
  const { patience = 0, baseline, restoreBestWeights = false, startFromEpoch = 0 } = options;
  const monitor = new Monitor(options);
  let waited = 0;
  let best: Readonly<Record<string, Tensor>> | undefined;
  return {
    inJob: 'train: { earlyStopping: { patience } }, which counts steps',
    // The same callback may be used for several runs.
    onTrainBegin: () => {
      monitor.reset(baseline);
      waited = 0;
      best = undefined;
    },
    onEpochEnd: async (epoch, logs, control) => {
      if (epoch < startFromEpoch) return;
      if (monitor.improves(logs)) {
        waited = 0;
        if (restoreBestWeights) best = await control.model.getWeights();
      } else if (++waited >= Math.max(1, patience)) {
        control.stop();
      }
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
  const { factor = 0.1, patience = 10, cooldown = 0, minLr = 0 } = options;
  if (!(factor > 0 && factor < 1))
    throw invalid(`factor of reduceLROnPlateau must be between 0 and 1; it is ${factor}`);
  const monitor = new Monitor({ minDelta: 1e-4, ...options });
  let [waited, resting] = [0, 0];
  return {
    inJob: 'a schedule as learning rate, such as tf.train.exponentialDecay',
    onTrainBegin: () => {
      monitor.reset();
      [waited, resting] = [0, 0];
    },
    onEpochEnd: async (epoch, logs, control) => {
      const improved = monitor.improves(logs);
      if (resting > 0) {
        resting -= 1;
        waited = 0;
      }
      if (improved) waited = 0;
      else if (resting === 0 && ++waited >= patience) {
        const rate = await control.learningRate();
        if (rate <= minLr) return;
        const next = Math.max(rate * factor, minLr);
        await control.scaleLearningRate(next / rate);
        control.note(`epoch ${epoch + 1}: the learning rate is ${Number(next.toPrecision(6))}`);
        resting = cooldown;
        waited = 0;
      }
    },
  };
}
