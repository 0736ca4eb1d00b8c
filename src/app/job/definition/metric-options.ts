/** The options of a job that watch a value: early stopping, and a learning rate that is reduced. */
import { inspect } from 'node:util';
import { invalid } from '../../../base/errors/errors.js';
import type { DecisionRules, MetricRule } from '../../../training/train/evaluation/decisions.js';
import type { EarlyStoppingOptions } from '../../../training/train/hooks/early-stopping.js';
import { type Mode, modeOf } from '../../../training/train/hooks/metric-comparison.js';

/** Training ends when a value of the training batch has not improved for a number of steps. */
export interface OutputEarlyStopping extends Omit<EarlyStoppingOptions, 'metric' | 'isChief'> {
  /** The output of the model to watch, a scalar; default: the loss. */
  readonly output?: string;
}

/** Training ends when a metric of the evaluation has not improved for a number of evaluations. */
export interface MetricEarlyStopping {
  /** A metric of the job's `evaluate`, such as `eval/auc`. */
  readonly metric: `eval/${string}`;
  /** Whether lower or higher is better; default: `max` for accuracies, AUC, precision, recall and topK, else `min`. */
  readonly mode?: Mode;
  /** Evaluations in a row without an improvement after which training ends. */
  readonly patience: number;
  /** The smallest change that counts as an improvement. Default: 0. */
  readonly minDelta?: number;
  /** Evaluations of earlier steps do not end training. Default: 0. */
  readonly minSteps?: number;
  /**
   * Whether the job ends with the best checkpoint: it is kept whatever its age, restored at the end, saved as the last one
   * and exported. Needs `checkpoint`. Default: false.
   */
  readonly restoreBest?: boolean;
}

export type JobEarlyStopping = OutputEarlyStopping | MetricEarlyStopping;

/** The learning rate is reduced when a value has not improved. */
export interface ReduceLearningRate {
  /**
   * A metric of the job's `evaluate`, such as `eval/loss`, whose evaluations are counted, or `loss` or an output of the
   * model, of which the steps of the chief are counted.
   */
  readonly metric: string;
  /** Whether lower or higher is better; default: `max` for accuracies, AUC, precision, recall and topK, else `min`. */
  readonly mode?: Mode;
  /** What the learning rate is multiplied by. Default: 0.1. */
  readonly factor?: number;
  /** Values in a row without an improvement after which it is reduced. Default: 10. */
  readonly patience?: number;
  /** The smallest change that counts as an improvement. Default: 0. */
  readonly minDelta?: number;
  /** Values after a reduction that do not count. Default: 0. */
  readonly cooldown?: number;
  /** The lowest learning rate, of an optimizer whose learning rate is one number. Default: 0. */
  readonly min?: number;
}

/** The part of a job's `train` with these options. */
interface WatchingTrain {
  readonly earlyStopping?: JobEarlyStopping;
  readonly reduceLearningRate?: ReduceLearningRate;
  readonly checkpoint?: object;
}

interface Watching {
  readonly train: WatchingTrain;
}

const EVAL = 'eval/';
const FACTOR = 0.1;
const PATIENCE = 10;

/** What early stopping watches, if that is a metric of the evaluation. */
export function metricStopping({ train }: Watching): MetricEarlyStopping | undefined {
  const { earlyStopping } = train;
  return earlyStopping && 'metric' in earlyStopping ? earlyStopping : undefined;
}

/** Whether the job ends with its best checkpoint. */
export const restoresBest = (job: Watching): boolean => metricStopping(job)?.restoreBest === true;

/** How the learning rate is reduced, with the defaults; undefined if it is not. */
export function rateRule({ train }: Watching) {
  const { reduceLearningRate: given } = train;
  if (!given) return undefined;
  const { metric, factor = FACTOR, patience = PATIENCE, min = 0, mode = modeOf(metric) } = given;
  const isEvaluated = metric.startsWith(EVAL);
  const name = isEvaluated ? metric.slice(EVAL.length) : metric;
  const { minDelta, cooldown } = given;
  return { metric: name, mode, factor, patience, minDelta, cooldown, min, isEvaluated };
}

/** What the evaluations of the job decide. */
export function decisionRules(job: Watching): DecisionRules {
  const early = metricStopping(job);
  const reduce = rateRule(job);
  const stop: MetricRule | undefined = early && {
    ...early,
    metric: early.metric.slice(EVAL.length),
    mode: early.mode ?? modeOf(early.metric),
  };
  return { stop, reduce: reduce?.isEvaluated ? reduce : undefined };
}

/** Whether evaluations decide something in the job. */
export function hasDecisions(job: Watching): boolean {
  const { stop, reduce } = decisionRules(job);
  return (stop ?? reduce) !== undefined;
}

/** The job without what its evaluations decide. */
export function withoutDecisions<T extends WatchingTrain>(train: T): T {
  const { earlyStopping, reduceLearningRate, ...others } = train;
  const { stop, reduce } = decisionRules({ train });
  return {
    ...others,
    ...(earlyStopping && !stop && { earlyStopping }),
    ...(reduceLearningRate && !reduce && { reduceLearningRate }),
  } as T;
}

/** Throws if the options are not valid. */
export function checkMetricOptions(name: string, train: WatchingTrain, evaluate: unknown): void {
  const { earlyStopping, reduceLearningRate, checkpoint } = train;
  if (earlyStopping && 'metric' in earlyStopping) {
    const what = `train.earlyStopping of job '${name}'`;
    const { metric, mode, patience, minDelta, restoreBest } = earlyStopping;
    if (typeof metric !== 'string' || !metric.startsWith(EVAL))
      throw invalid(`${what} watches ${inspect(metric)}, which is not a metric of the evaluation`, {
        hint: "Write metric: 'eval/NAME', or output: 'NAME' for an output of the model on the training batch.",
      });
    if ('output' in earlyStopping || 'maxStepsWithoutImprovement' in earlyStopping)
      throw invalid(`${what} has options of an output and of a metric`, {
        hint: 'metric goes with patience, which counts evaluations; output goes with maxStepsWithoutImprovement.',
      });
    checkCount(`train.earlyStopping.patience of job '${name}'`, patience);
    checkWatch('train.earlyStopping', name, { mode, minDelta });
    needEvaluation(what, metric, evaluate);
    if (restoreBest && !checkpoint)
      throw invalid(`${what} restores the best checkpoint, but the job saves none`, {
        hint: 'Enable checkpoints: train: { checkpoint: { everySecs: 60 } }.',
      });
  }
  if (!reduceLearningRate) return;
  const { metric, factor = FACTOR, patience = PATIENCE, cooldown = 0, min = 0 } = reduceLearningRate;
  const option = 'train.reduceLearningRate';
  if (typeof metric !== 'string')
    throw invalid(`${option}.metric of job '${name}' must be like 'eval/loss' or 'loss'`);
  if (!(factor > 0 && factor < 1))
    throw invalid(`${option}.factor of job '${name}' must be between 0 and 1, it is ${factor}`);
  checkCount(`${option}.patience of job '${name}'`, patience);
  if (!Number.isSafeInteger(cooldown) || cooldown < 0)
    throw invalid(`${option}.cooldown of job '${name}' must be an integer of at least 0, it is ${cooldown}`);
  if (!(min >= 0)) throw invalid(`${option}.min of job '${name}' must be at least 0, it is ${min}`);
  checkWatch(option, name, reduceLearningRate);
  if (metric.startsWith(EVAL)) needEvaluation(`${option} of job '${name}'`, metric, evaluate);
}

function checkCount(what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw invalid(`${what} must be an integer of at least 1, it is ${inspect(value)}`);
}

function checkWatch(
  option: string,
  name: string,
  {
    mode = 'min',
    minDelta = 0,
  }: { readonly mode?: Mode | undefined; readonly minDelta?: number | undefined },
): void {
  if (mode !== 'min' && mode !== 'max')
    throw invalid(`${option}.mode of job '${name}' must be 'min' or 'max', it is ${inspect(mode)}`);
  if (!(minDelta >= 0))
    throw invalid(`${option}.minDelta of job '${name}' must be at least 0, it is ${minDelta}`);
}

function needEvaluation(what: string, metric: string, evaluate: unknown): void {
  if (evaluate) return;
  throw invalid(`${what} watches '${metric}', but the job has no evaluation`, {
    hint: `Add evaluate: { metrics: … } with the metric '${metric.slice(EVAL.length)}'.`,
  });
}
