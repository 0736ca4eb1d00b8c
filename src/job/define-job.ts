/** A job: a model, its input, how long to train. The same file runs in one process and on a cluster. */
import type { ConsistencyOption } from '../checkpoint/consistency.js';
import { invalid } from '../errors/errors.js';
import type { Output, OutputLike } from '../graph/operation.js';
import type { Dataset } from '../input/dataset/dataset.js';
import type { ShardedFiles } from '../input/leases/sharded-files.js';
import type { SparseTensor } from '../layers/sparse-tensor.js';
import type { Operand } from '../ops/build.js';
import type { Optimizer } from '../optimizers/optimizer.js';
import type { SignatureDefMap } from '../saved-model/check-signatures.js';
import type { BestPolicy } from '../train/evaluation/best-checkpoints.js';
import type { StreamingMetric } from '../train/evaluation/evaluate.js';

/** What feeds a model, as it is given: values, or the elements of a dataset. */
export type InputValues = Readonly<Record<string, Operand | SparseTensor>>;

/** What the model gets of it. */
export type JobInput<I = Readonly<Record<string, Output>>> = {
  readonly [K in keyof I]: I[K] extends SparseTensor ? I[K] : Output;
};

export type JobOutputs = Readonly<Record<string, OutputLike>>;

export interface JobModel<O = JobOutputs> {
  readonly loss: OutputLike;
  readonly optimizer: Optimizer;
  /** Values to look at while training, and at the end. Those that depend on the input are what an export returns. */
  readonly outputs?: O;
}

export interface CheckpointOptions {
  /** 60 where neither seconds nor steps are told. */
  readonly everySecs?: number;
  readonly everySteps?: number;
  /** The newest that stay; 0 keeps all. 5 unless told. */
  readonly keep?: number;
  /** Besides, one for every so many hours stays for good. */
  readonly everyHours?: number;
  /** `consistent` (default): all values are of one moment. `relaxed`: workers train on while they are read. */
  readonly consistency?: ConsistencyOption;
  /**
   * Where they are kept: `peers:` (default), the disks of the tasks, or of the one process; `file:` and a directory that
   * all tasks see, of this job alone.
   */
  readonly store?: string;
  /** Copies of every shard on other hosts; 1 unless told. */
  readonly replicas?: number;
  /** The directory that shows them as TensorFlow does; relative to the chief's own. Default: `checkpoints`. */
  readonly directory?: string;
  /** How long a restore waits for tasks that are away and may hold the newest checkpoint. Default: 120. */
  readonly waitSecs?: number;
  /**
   * How long the workers may take to pause at the end of a step, so that all values are of one instant; a save that waits
   * longer fails, and the next one is tried later. Default: ten times the longest of the chief's recent steps, at least
   * 15 s; 60 s before its first step.
   */
  readonly pauseTimeoutSecs?: number;
}

/** Where and how often the model's summaries (`tf.summary.*`) are written. */
export interface SummariesOptions {
  /** Default: 100, where `everySecs` is not given. */
  readonly everySteps?: number;
  /** Instead of `everySteps`. */
  readonly everySecs?: number;
  /** The directory of the event files, within the chief's own. Default: `summaries`. */
  readonly directory?: string;
}

export interface ExportOptions<I = InputValues, O = JobOutputs> {
  /**
   * What the exported model takes and returns. Default: the signature `serving_default`, which takes what the model's
   * outputs need of the input and returns the outputs that depend on it.
   */
  readonly signatures?: (parts: ServingParts<I, O>) => SignatureDefMap;
  /** Exports every so many steps besides at the end of training. */
  readonly everySteps?: number;
  /** Exports every so many seconds besides at the end of training. */
  readonly everySecs?: number;
  /** The newest exports that stay; 0 keeps all. Default: 5. Only directories that this job exported are removed. */
  readonly latest?: number;
  /** The evaluator exports a checkpoint that is better than all before, to `best` in its export directory. */
  readonly best?: BestPolicy;
  /** Each export is a new directory in this one, named by a version number. Default: `export` in the task's directory. */
  readonly directory?: string;
}

export interface ServingParts<I = InputValues, O = JobOutputs> {
  /**
   * Builds the model for serving, once. Inputs that are not given are placeholders like the input of training, with the
   * first dimension open; what the signatures do not use is not exported.
   */
  readonly model: (input?: Partial<JobInput<I>>) => {
    readonly input: JobInput<I>;
    readonly outputs: O;
  };
}

export interface EvaluateOptions<I = InputValues, O = JobOutputs> {
  /** The input of an evaluation: as that of training, but it is gone through once for each checkpoint. */
  readonly input?: () => I | Dataset<I>;
  /** What is measured; the mean of the loss unless told. */
  readonly metrics?: (parts: {
    readonly input: JobInput<I>;
    readonly loss: OutputLike;
    readonly outputs: O;
  }) => Readonly<Record<string, StreamingMetric>>;
  /** How many batches; until the end of the input when left out, which an input of plain values does not have: 1. */
  readonly batches?: number;
  /** How often to look for a checkpoint; 10 unless told. */
  readonly pollSecs?: number;
  /** Keeps copies of the best checkpoints, in `best` of the evaluator's directory. */
  readonly best?: BestPolicy;
}

export interface TrainOptions {
  /** Training ends when the global step is here, if the input does not end before. */
  readonly lastStep: number;
  /** Steps that a worker keeps under way at once, in asynchronous training. */
  readonly inflight?: number;
  /**
   * Synchronous training: every step is made of one gradient of each worker, or of `replicasToAggregate` of
   * them, the slowest being left out.
   */
  readonly sync?: boolean | { readonly replicasToAggregate: number };
  /**
   * Where there are several workers, a dataset of record files is leased to them piece by piece, so that every record is
   * used once; one that depends on the replica is left to each. `whole`: each reads all of it. `shards`: an error if it
   * can't be leased.
   */
  readonly input?: 'shards' | 'whole';
  /** Checkpoints while training, and one at the end; none when left out. */
  readonly checkpoint?: CheckpointOptions;
  /** How the chief writes the model's summaries. Default: every 100 steps; a model without summaries writes no file. */
  readonly summaries?: SummariesOptions | false;
  /**
   * How long a step may take before it is given up, the cluster checked, and the step tried again; the job fails when the
   * same step has taken too long three times while all tasks that it needs were alive. It does not delay the detection of a
   * dead or frozen ps (`deadAfterMs`). Default: ten times the longest of the worker's recent steps, at least 60 s, in
   * synchronous training at least 600 s; 600 s for the first step.
   */
  readonly stepTimeoutSecs?: number;
  /** How often to say where training is. */
  readonly logEverySecs?: number;
}

/** Which of how many workers the graph is built for. */
export interface Replica {
  readonly index: number;
  readonly count: number;
}

export interface ModelParts<I = InputValues> {
  readonly input: JobInput<I>;
  /** Whether this graph trains: false for evaluation and export, where layers such as dropout do nothing. */
  readonly training: boolean;
}

export interface JobOptions<I = InputValues, O = JobOutputs> {
  readonly name: string;
  /**
   * What feeds the model: a function that gives tensors, or a dataset of them; or `tf.data.shards(…)`. The workers share
   * the records of a dataset of files (see `train.input`); all else is computed on each worker for itself. When the input
   * ends, so does training.
   */
  readonly input?: ShardedFiles<I> | ((replica: Replica) => I | Dataset<I> | ShardedFiles<I>);
  readonly model: (parts: ModelParts<I>) => JobModel<O>;
  readonly train: TrainOptions;
  /** What a task of the job `evaluator` does with every checkpoint. */
  readonly evaluate?: EvaluateOptions<I, O>;
  /** Exports the model for serving, as a SavedModel: at the end of training, and before if wanted. `{}`: at the end. */
  readonly export?: ExportOptions<I, O>;
  /** A seed for the graph: every task builds the same graph from it. */
  readonly seed?: number;
}

const JOB = Symbol.for('shoal.job');

export interface JobDefinition extends JobOptions {
  readonly [JOB]: true;
}

export function defineJob<const I = Record<string, never>, O extends JobOutputs = Record<string, never>>(
  options: JobOptions<I, O>,
): JobDefinition {
  const { name, model, train } = options;
  if (!/^[\w-][\w.-]{0,99}$/.test(name)) {
    throw invalid(
      `The name of a job consists of letters, digits and . _ - and does not begin with a point; it is ${JSON.stringify(name)}`,
    );
  }
  if (typeof model !== 'function') throw invalid(`Job '${name}' has no model function`);
  if (!Number.isSafeInteger(train?.lastStep) || train.lastStep < 0) {
    throw invalid(`Job '${name}' must say at which step training ends: train: { lastStep: 1000 }`);
  }
  const { inflight = 1 } = train;
  if (!Number.isSafeInteger(inflight) || inflight < 1) {
    throw invalid(`train.inflight of job '${name}' must be a number from 1, it is ${inflight}`);
  }
  if (train.input !== undefined && train.input !== 'shards' && train.input !== 'whole') {
    throw invalid(
      `train.input of job '${name}' is 'shards' or 'whole'; ${JSON.stringify(train.input)} is neither`,
    );
  }
  const { stepTimeoutSecs = 1 } = train;
  if (!(stepTimeoutSecs > 0)) {
    throw invalid(`train.stepTimeoutSecs of job '${name}' must be above 0, it is ${stepTimeoutSecs}`);
  }
  if (train.sync && inflight > 1) {
    throw invalid(`Job '${name}' trains synchronously: its steps wait for each other, so inflight must be 1`);
  }
  checkCheckpoint(name, train.checkpoint);
  checkSummaries(name, train.summaries);
  checkEvaluate(name, options.evaluate);
  checkExport(name, options);
  // What the model takes is what the input gives: nobody else calls either.
  return { ...(options as unknown as JobOptions), [JOB]: true };
}

function checkCheckpoint(name: string, checkpoint: CheckpointOptions | undefined): void {
  const { everySecs, everySteps, pauseTimeoutSecs, keep = 0, replicas = 0, waitSecs = 0 } = checkpoint ?? {};
  const isPositive = (value: number | undefined) => value === undefined || value > 0;
  const arePositive = [everySecs, everySteps, pauseTimeoutSecs].every(isPositive);
  if (!arePositive || ![keep, replicas, waitSecs].every((value) => value >= 0)) {
    throw invalid(
      `train.checkpoint of job '${name}' contains an invalid number: ${JSON.stringify(checkpoint)}`,
    );
  }
}

function checkSummaries(name: string, summaries: SummariesOptions | false | undefined): void {
  const { everySteps, everySecs } = summaries || {};
  if (everySteps !== undefined && everySecs !== undefined)
    throw invalid(`train.summaries of job '${name}' has both everySteps and everySecs; give one of them`);
  for (const [option, value] of Object.entries({ everySteps, everySecs })) {
    if (value !== undefined && !(value > 0))
      throw invalid(`train.summaries.${option} of job '${name}' must be above 0, it is ${value}`);
  }
}

function checkEvaluate(
  name: string,
  evaluate: { readonly batches?: number; readonly pollSecs?: number } | undefined,
): void {
  const { batches = 1, pollSecs = 1 } = evaluate ?? {};
  if (!Number.isSafeInteger(batches) || batches < 1 || !(pollSecs > 0)) {
    throw invalid(`evaluate of job '${name}' contains an invalid number: ${JSON.stringify(evaluate)}`);
  }
}

const EXPORT_OPTIONS: ReadonlySet<string> = new Set<keyof ExportOptions>([
  'signatures',
  'everySteps',
  'everySecs',
  'latest',
  'best',
  'directory',
]);

function checkExport(
  name: string,
  {
    export: given,
    evaluate,
  }: { readonly export?: Omit<ExportOptions, 'signatures'>; readonly evaluate?: unknown },
): void {
  if (!given) return;
  const unknown = Object.keys(given).filter((option) => !EXPORT_OPTIONS.has(option));
  if (unknown.length > 0) {
    throw invalid(`export of job '${name}' has no option ${unknown.join(', ')}`, {
      hint: `There are ${[...EXPORT_OPTIONS].join(', ')}.`,
    });
  }
  const { everySteps, everySecs, latest = 0, best } = given;
  if (best && (typeof best.metric !== 'string' || !['min', 'max'].includes(best.mode))) {
    throw invalid(
      `export.best of job '${name}' must be like { metric: 'loss', mode: 'min' }, or mode: 'max'`,
    );
  }
  for (const [option, value] of Object.entries({ everySteps, everySecs })) {
    if (value !== undefined && !(value > 0))
      throw invalid(`export.${option} of job '${name}' must be above 0, it is ${value}`);
  }
  if (!Number.isSafeInteger(latest) || latest < 0)
    throw invalid(`export.latest of job '${name}' must be a whole number from 0, it is ${latest}`);
  if (best && !evaluate) {
    throw invalid(
      `export.best of job '${name}' needs an evaluation: the evaluator finds the best checkpoint`,
      {
        hint: `Add evaluate: { metrics: … } with the metric '${best.metric}'.`,
      },
    );
  }
}

/** Whether the default export of a file is a job. */
export function isJob(value: unknown): value is JobDefinition {
  return typeof value === 'object' && value !== null && (value as Partial<JobDefinition>)[JOB] === true;
}
