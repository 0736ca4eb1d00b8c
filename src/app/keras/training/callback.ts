/** The interface of callbacks, and what those that watch a value have in common. */
import { invalid } from '../../../base/errors/errors.js';
import { checkNames, type Names } from '../../../base/errors/option-names.js';
import type { Tensor, TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { isBetter, type Mode, modeOf } from '../../../training/train/hooks/metric-comparison.js';
import type { MaybePromise } from '../../../training/train/hooks/session-run-hook.js';

/** The loss and the metrics, by name; those of the validation begin with `val_`. */
export type Logs = Readonly<Record<string, number>>;

/** The part of a model that callbacks use. */
export interface FittedModel {
  getWeights(): Promise<Readonly<Record<string, Tensor>>>;
  setWeights(values: Readonly<Record<string, TensorLike>>): Promise<void>;
  saveWeights(prefix: string): Promise<void>;
  save(directory: string): Promise<string>;
}

export interface FitControl {
  /** Ends training after this batch or epoch. */
  stop(): void;
  readonly model: FittedModel;
  /** The learning rate, without its schedule if it has one. */
  learningRate(): Promise<number>;
  /** Multiplies the learning rate from the next step on. */
  scaleLearningRate(factor: number): Promise<void>;
  /** Prints a line, unless `verbose` is false. */
  note(line: string): void;
}

/** An error in a callback fails `fit`. Epochs and batches are counted from 0. */
export interface FitCallback {
  readonly onTrainBegin?: (control: FitControl) => MaybePromise<void>;
  readonly onEpochBegin?: (epoch: number, control: FitControl) => MaybePromise<void>;
  readonly onBatchEnd?: (batch: number, logs: Logs, control: FitControl) => MaybePromise<void>;
  readonly onEpochEnd?: (epoch: number, logs: Logs, control: FitControl) => MaybePromise<void>;
  /** Training has ended, not by an error. */
  readonly onTrainEnd?: (logs: Logs, control: FitControl) => MaybePromise<void>;
  /** What a job has in its place. @internal */
  readonly inJob?: string;
}

export interface MonitorOptions {
  /** The value to watch. Default: `val_loss`. */
  readonly monitor?: string;
  /** What counts as an improvement. Default: 0; 0.0001 of `reduceLROnPlateau`. */
  readonly minDelta?: number;
  /** Whether lower or higher is better; default: `max` for accuracies, AUC, precision, recall and topK, else `min`. */
  readonly mode?: 'min' | 'max';
}

export const MONITOR_NAMES: Names<MonitorOptions> = { monitor: true, minDelta: true, mode: true };

/** Rejects misspelled options. */
export const checkCallback = <O extends object>(name: string, given: O, known: Names<O>): void =>
  checkNames(given, known, (option) => `${name} has an unknown option '${option}'`);

/** What is watched, and its best value. */
export class Monitor {
  readonly name: string;
  readonly minDelta: number;
  readonly mode: Mode;
  #best = Number.NaN;

  constructor({ monitor = 'val_loss', minDelta = 0, mode }: MonitorOptions) {
    if (mode !== undefined && mode !== 'min' && mode !== 'max')
      throw invalid(`mode of a callback must be 'min' or 'max'; it is '${mode}'`);
    this.name = monitor;
    this.minDelta = minDelta;
    this.mode = mode ?? modeOf(monitor);
  }

  reset(): void {
    this.#best = Number.NaN;
  }

  read(logs: Logs): number {
    const value = logs[this.name];
    if (value !== undefined) return value;
    throw invalid(`There is no value '${this.name}'; there are ${Object.keys(logs).join(', ')}`, {
      ...(this.name.startsWith('val_') && { hint: 'Give validationData to fit.' }),
    });
  }

  /** Whether the value is the best so far. */
  improves(logs: Logs): boolean {
    const value = this.read(logs);
    if (!isBetter(value, this.#best, this.mode, this.minDelta)) return false;
    this.#best = value;
    return true;
  }
}
