/** A job: a model, its input, how long to train. The same file runs in one process and on a cluster. */
import { inspect } from 'node:util';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { checkGatherMode, type GatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import type { Consistency } from '../../../distributed/checkpoint/format/consistency.js';
import { DEFAULT_ENGINE, type EngineKind } from '../../../distributed/cluster/spec/config.js';
import type { Output, OutputLike } from '../../../tensorflow/graph/operation.js';
import type { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import type { Operand } from '../../../tensorflow/ops/build.js';
import type { OptimizerEntry } from '../../../tensorflow/optimizers/combined.js';
import type { Optimizer } from '../../../tensorflow/optimizers/optimizer.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { Dataset } from '../../../training/input/dataset/dataset.js';
import type { Features } from '../../../training/input/dataset/parse-example.js';
import type { ShardedFiles } from '../../../training/input/leases/sharded-files.js';
import type { SignatureDefMap } from '../../../training/saved-model/signatures/check-signatures.js';
import type { BestPolicy } from '../../../training/train/evaluation/best-checkpoints.js';
import type { StreamingMetric } from '../../../training/train/evaluation/evaluate.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import {
  partialRefused,
  RECOVERY_MODES,
  type RecoveryMode,
} from '../../../training/train/recovery/recovery-mode.js';
import type { JobCallbacks } from './callbacks.js';
import { checkOptionNames } from './known-options.js';
import {
  checkMetricOptions,
  type JobEarlyStopping,
  type ReduceLearningRate,
  withoutDecisions,
} from './metric-options.js';
import type { PublishingOptions } from './publishing-options.js';

/** What a job's `input` returns: values, or the elements of a dataset. */
export type InputValues = Readonly<Record<string, Operand | SparseTensor>>;

/** What the model receives of it. */
export type ModelInput<I = Readonly<Record<string, Output>>> = {
  readonly [K in keyof I]: I[K] extends SparseTensor ? I[K] : Output;
};

export type JobOutputs = Readonly<Record<string, OutputLike>>;

export interface JobModel<O = JobOutputs> {
  readonly loss: OutputLike;
  /** An optimizer, or several: `[{ variables: /^wide\//, use: tf.train.ftrl(0.1) }, { use: tf.train.adagrad(0.01) }]`. */
  readonly optimizer: Optimizer | readonly OptimizerEntry[];
  /** Values to report at the end; default: none. Those that depend on the input are the outputs of an export. */
  readonly outputs?: O;
}

export interface CheckpointOptions {
  /** Seconds between checkpoints. Default: 60, or none if `everySteps` is set. */
  readonly everySecs?: number;
  /** Steps between checkpoints. Default: none. */
  readonly everySteps?: number;
  /** The number of newest checkpoints to keep; 0 keeps all. Default: 5. */
  readonly keep?: number;
  /** Additionally keeps one checkpoint per this many hours forever. Default: none. */
  readonly everyHours?: number;
  /**
   * `consistent`: all values are of one instant. `relaxed`: workers continue while values are read. Default:
   * `consistent`.
   */
  readonly consistency?: Consistency;
  /**
   * Where checkpoints are stored. `peers:`: on the disks of the tasks, or of the one process. `file:` and a directory
   * that all tasks share and no other job uses. Default: `peers:`.
   */
  readonly store?: string;
  /** Copies of every shard on other hosts. Default: 1. */
  readonly replicas?: number;
  /** The directory with TensorFlow's view of the checkpoints, relative to the chief's own. Default: `checkpoints`. */
  readonly directory?: string;
  /**
   * Which checkpoints become complete in that directory, with the data files from the disks of the other tasks. `last`:
   * the newest, at the end of training. `all`: each one, in the background after its save, and removed with it. `none`:
   * see `shoal checkpoint pull`. Default: `last`.
   */
  readonly gather?: GatherMode;
  /** How long a restore waits for missing tasks that may hold the newest checkpoint. Default: 120. */
  readonly waitSecs?: number;
  /**
   * How long the chief tries to save the last checkpoint if a disk is full or does not work, or a task cannot be reached;
   * meanwhile the ps keep the values. Then the job fails, and the steps since the newest checkpoint are lost. Default: 1800.
   */
  readonly lastSaveSecs?: number;
  /**
   * How long the workers may take to pause at the end of a step, so that all values are of one instant. A save that
   * waits longer fails and is retried later. Default: ten times the longest of the chief's recent steps, at least 15 s;
   * 60 s before its first step.
   */
  readonly pauseTimeoutSecs?: number;
}

/** Where and how often the model's summaries (`tf.summary.*`) are written. */
export interface SummariesOptions {
  /** Steps between summaries; default: 100, or none if `everySecs` is set. */
  readonly everySteps?: number;
  /** Seconds between summaries, instead of `everySteps`; default: none. */
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
  /**
   * How the exported model parses serialized `tf.train.Example`s, such as `tf.featureColumn.makeParseExampleSpec(columns)`:
   * the default signature then takes `examples` in the place of these inputs. A function is called for each export.
   * Default: none, the signature takes the inputs as tensors.
   */
  readonly examples?: Features | (() => Features);
  /** Also exports every so many steps, not only at the end of training. Default: none. */
  readonly everySteps?: number;
  /** Also exports every so many seconds, not only at the end of training. Default: none. */
  readonly everySecs?: number;
  /** How many of the newest exports to keep; 0 keeps all. Only exports of this job are removed. Default: 5. */
  readonly latest?: number;
  /**
   * The evaluator exports each checkpoint that is better than all earlier ones, to `best` in its export directory.
   * Default: none.
   */
  readonly best?: BestPolicy;
  /** Each export is a subdirectory named by a version number. Default: `export` in the task's directory. */
  readonly directory?: string;
  /**
   * Serving processes to which each export is published in the background, as `host:port` of their publish port. The
   * token is in SHOAL_PUBLISH_TOKEN. Default: none.
   */
  readonly publish?: readonly string[] | PublishingOptions;
}

export interface ServingParts<I = InputValues, O = JobOutputs> {
  /**
   * Builds the model for serving, once. Inputs that are not given are placeholders like the input of training, with the
   * first dimension open; what the signatures do not use is not exported.
   */
  readonly model: (input?: Partial<ModelInput<I>>) => {
    readonly input: ModelInput<I>;
    readonly outputs: O;
  };
}

export interface EvaluateOptions<I = InputValues, O = JobOutputs, P = JobParams> {
  /** The input of an evaluation, read once for each checkpoint. Default: that of training. */
  readonly input?: (parts: Pick<InputParts<P>, 'params'>) => I | Dataset<I>;
  /** The metrics. Default: the mean of the loss. */
  readonly metrics?: (parts: {
    readonly input: ModelInput<I>;
    readonly loss: OutputLike;
    readonly outputs: O;
  }) => Readonly<Record<string, StreamingMetric>>;
  /** The number of batches. Default: until the end of the input; 1 for an input of plain values, which has no end. */
  readonly batches?: number;
  /** Seconds between polls of an evaluator for a new checkpoint. Default: 10. */
  readonly pollSecs?: number;
  /** Without a cluster: seconds between evaluations. Default: those between checkpoints, or 60; none if `everySteps` is set. */
  readonly everySecs?: number;
  /** Without a cluster: steps between evaluations. Default: none. */
  readonly everySteps?: number;
  /** Keeps copies of the best checkpoints, in `best` of the evaluator's directory, or of this process. Default: none. */
  readonly best?: BestPolicy;
}

export interface SyncOptions {
  /** The number of gradients per step; default: one of each worker. */
  readonly replicasToAggregate?: number;
  /**
   * Whether a run that loses tasks ends with the same bits as one that does not: each step has exactly one gradient of each
   * worker, and adds them in the order of the workers. A step then waits for a worker that is absent. The input must
   * depend on the worker and the global step only. Default: false.
   */
  readonly deterministic?: boolean;
}

export interface TrainOptions {
  /** Training ends at this global step, or at the end of the input. */
  readonly lastStep: number;
  /** Steps that a worker runs concurrently in asynchronous training. Default: 1. */
  readonly inflight?: number;
  /**
   * Synchronous training: every step applies the mean of one gradient of each worker, or of the fastest
   * `replicasToAggregate`. Default: false.
   */
  readonly sync?: boolean | SyncOptions;
  /**
   * How several workers read a dataset of record files. `shards`: they lease its parts, so that every record is used
   * once; an error if it cannot be leased. `whole`: each worker reads all records. Default: `shards` in asynchronous
   * training if the dataset can be leased and does not depend on the replica, else `whole`.
   */
  readonly input?: 'shards' | 'whole';
  /**
   * Whether workers that the cluster does not list may join and leave during training (`shoal task --elastic`). Needs
   * leased input and asynchronous training. Default: false.
   */
  readonly elastic?: boolean;
  /** Saves checkpoints during training and at the end. Default: none. */
  readonly checkpoint?: CheckpointOptions;
  /**
   * How the chief writes the model's summaries. For a model without any, these are its loss and the learning rate.
   * Default: every 100 steps; a model without summaries writes no file.
   */
  readonly summaries?: SummariesOptions | false;
  /** What happens if the loss is NaN: training fails, ends, or continues. Default: 'fail'. */
  readonly onNan?: 'fail' | 'stop' | 'ignore';
  /** Ends training when a value has stopped improving. Default: none. */
  readonly earlyStopping?: JobEarlyStopping;
  /** Reduces the learning rate when a value has stopped improving. Default: none. */
  readonly reduceLearningRate?: ReduceLearningRate;
  /**
   * A step that takes longer is abandoned, the cluster is checked, and the step is retried. The job fails if the same
   * step times out three times while all tasks that it needs are alive. This does not delay the detection of a dead or
   * frozen ps (`deadAfterMs`). Default: ten times the longest of the worker's recent steps, at least 60 s, in
   * synchronous training at least 600 s; 600 s for the first step.
   */
  readonly stepTimeoutSecs?: number;
  /**
   * After the loss of a ps. `exact`: all ps go back to the newest checkpoint, with the ledger of leased input.
   * `partial`: only the lost ps does, and loses its own updates since then; the others keep their state. Not with
   * leased input or synchronous training. Default: exact.
   */
  readonly recovery?: RecoveryMode;
  /** Seconds between progress lines in the log. Default: 5. */
  readonly logEverySecs?: number;
}

/** The worker that the graph is built for: `index` of `count`. */
export interface Replica {
  readonly index: number;
  readonly count: number;
}

/** What the function of a job's input receives. */
export interface InputParts<P = JobParams> extends Replica {
  /** The parameters of the job: their defaults, or what `--set` sets. */
  readonly params: ParamValues<P>;
}

/** The parameters that a job declares, with their defaults. */
export type JobParams = Readonly<Record<string, number | string | boolean>>;

/** The values of the parameters: each has the type of its default. */
export type ParamValues<P> = {
  readonly [K in keyof P]: P[K] extends number
    ? number
    : P[K] extends boolean
      ? boolean
      : P[K] extends string
        ? string
        : P[K];
};

export interface ModelParts<I = InputValues, P = JobParams> {
  readonly input: ModelInput<I>;
  /** The parameters of the job: their defaults, or what `--set` sets. */
  readonly params: ParamValues<P>;
  /** Whether this graph trains: false for evaluation and export, where layers such as dropout do nothing. */
  readonly training: boolean;
}

/** What the hooks of a job can watch. */
export interface HookParts<O = JobOutputs> {
  readonly loss: Output;
  readonly outputs: { readonly [K in keyof O]: Output };
  readonly globalStep: Variable<'int64'>;
  /** Whether this worker is the chief. */
  readonly isChief: boolean;
}

export interface JobOptions<I = InputValues, O = JobOutputs, P = JobParams> {
  readonly name: string;
  /** Parameters of the model and its input, and their defaults; `shoal run --set name=value` overrides them. Default: none. */
  readonly params?: P;
  /**
   * The input of the model: a function that returns tensors or a dataset, or `tf.data.shards(…)`. The workers share
   * the records of a dataset of files (see `train.input`); any other input is computed on each worker. Training ends
   * with the input. Default: none, the model has no input.
   */
  readonly input?: ShardedFiles<I> | ((parts: InputParts<P>) => I | Dataset<I> | ShardedFiles<I>);
  readonly model: (parts: ModelParts<I, P>) => JobModel<O>;
  readonly train: TrainOptions;
  /** How a task of the job `evaluator` evaluates each checkpoint. Default: none. */
  readonly evaluate?: EvaluateOptions<I, O, P>;
  /** Exports the model for serving, as a SavedModel: at the end of training, and optionally before. Default: none. */
  readonly export?: ExportOptions<I, O>;
  /** Hooks of the training of each worker, as in a monitored session (`shoal/train`). Default: none. */
  readonly hooks?: (parts: HookParts<O>) => readonly SessionRunHook[];
  /** Functions to call during training. Default: none. */
  readonly callbacks?: JobCallbacks;
  /**
   * What executes steps on a cluster: `direct`, Shoal's own engine, or `grpc`, TensorFlow's servers. `--engine` and
   * SHOAL_ENGINE override it. Default: direct.
   */
  readonly engine?: EngineKind;
  /** The seed of the graph, the same on every task; default: none, random. */
  readonly seed?: number;
}

const JOB = Symbol.for('shoal.job');
const NAME_LENGTH = 100;

export interface JobDefinition extends JobOptions {
  readonly [JOB]: true;
}

export function defineJob<
  const I = Record<string, never>,
  O extends JobOutputs = Record<string, never>,
  P extends JobParams = Record<never, never>,
>(options: JobOptions<I, O, P>): JobDefinition {
  const { name, model, train } = options;
  if (typeof name === 'string' && name.length > NAME_LENGTH) {
    throw invalid(
      `The name of a job has at most ${NAME_LENGTH} characters; '${name.slice(0, 20)}…' has ${name.length}`,
      {
        hint: 'It is part of the names of directories and checkpoints: choose a short one, and use params for settings.',
      },
    );
  }
  if (!/^[\w-][\w.-]*$/.test(name)) {
    throw invalid(
      `The name of a job consists of letters, digits and . _ - and does not start with a dot; it is ${JSON.stringify(name)}`,
    );
  }
  checkOptionNames(options);
  if (typeof model !== 'function') throw invalid(`Job '${name}' has no model function`);
  if (!Number.isSafeInteger(train?.lastStep) || train.lastStep < 0) {
    const given = train?.lastStep === undefined ? 'not set' : inspect(train.lastStep);
    throw invalid(`train.lastStep of job '${name}' must be an integer of at least 0, it is ${given}`, {
      hint: 'lastStep is the step at which training ends: train: { lastStep: 1000 }',
    });
  }
  const { inflight = 1 } = train;
  if (!Number.isSafeInteger(inflight) || inflight < 1) {
    throw invalid(`train.inflight of job '${name}' must be an integer above 0, it is ${inflight}`);
  }
  if (train.input !== undefined && train.input !== 'shards' && train.input !== 'whole') {
    throw invalid(
      `train.input of job '${name}' must be 'shards' or 'whole', it is ${JSON.stringify(train.input)}`,
    );
  }
  const { stepTimeoutSecs = 1, onNan = 'fail' } = train;
  if (!['fail', 'stop', 'ignore'].includes(onNan)) {
    throw invalid(
      `train.onNan of job '${name}' must be 'fail', 'stop' or 'ignore', it is ${JSON.stringify(onNan)}`,
    );
  }
  checkRecovery(name, train);
  checkElastic(name, train);
  if (!(stepTimeoutSecs > 0)) {
    throw invalid(`train.stepTimeoutSecs of job '${name}' must be above 0, it is ${stepTimeoutSecs}`);
  }
  if (train.sync && onNan === 'stop') {
    throw invalid(
      `Job '${name}' trains synchronously: a worker that stops alone would block the others, so train.onNan must be 'fail' or 'ignore'`,
    );
  }
  if (train.sync && inflight > 1) {
    throw invalid(`Job '${name}' trains synchronously: its steps wait for each other, so inflight must be 1`);
  }
  for (const [param, value] of Object.entries(options.params ?? {})) {
    if (!['number', 'string', 'boolean'].includes(typeof value))
      throw invalid(`params.${param} of job '${name}' must be a number, a string or a boolean`);
  }
  const { engine = DEFAULT_ENGINE } = options;
  if (engine !== 'direct' && engine !== 'grpc')
    throw invalid(`engine of job '${name}' must be 'direct' or 'grpc', it is ${JSON.stringify(engine)}`);
  checkCheckpoint(name, train.checkpoint);
  checkSummaries(name, train.summaries);
  checkEvaluate(name, options.evaluate);
  checkMetricOptions(name, train, options.evaluate);
  checkExport(name, options);
  // The types of input and model match: the model is called only with its own input.
  return { ...(options as unknown as JobOptions), [JOB]: true };
}

function checkRecovery(name: string, { recovery = 'exact', sync }: TrainOptions): void {
  if (!RECOVERY_MODES.includes(recovery)) {
    const given = JSON.stringify(recovery);
    throw invalid(`train.recovery of job '${name}' must be 'exact' or 'partial', it is ${given}`);
  }
  if (recovery === 'partial' && sync)
    throw partialRefused(`Job '${name}'`, 'it trains synchronously, and the ps would be at different steps');
}

function checkElastic(name: string, { elastic, sync, input }: TrainOptions): void {
  if (!elastic) return;
  if (sync)
    throw notElastic(name, 'it trains synchronously, and the number of gradients in a step would change');
  if (input === 'whole') throw notElastic(name, WHY_LEASED);
}

/** Why the input of an elastic job must be leased. */
export const WHY_LEASED =
  'its input is not leased, and records would be repeated or left out when a worker joins or leaves';

export const notElastic = (name: string, why: string): ShoalError =>
  new ShoalError('SHOAL_CONFIG', `Job '${name}' cannot be elastic: ${why}`, {
    hint: 'Remove train.elastic, or train asynchronously on leased record files (tf.data.shards, or a dataset of files).',
  });

function checkCheckpoint(name: string, checkpoint: CheckpointOptions | undefined): void {
  const { everySecs, everySteps, pauseTimeoutSecs, keep, replicas, waitSecs } = checkpoint ?? {};
  checkGatherMode(checkpoint?.gather, `train.checkpoint.gather of job '${name}'`);
  const check = (
    values: Readonly<Record<string, number | undefined>>,
    least: string,
    isValid: (value: number) => boolean,
  ) => {
    for (const [option, value] of Object.entries(values))
      if (value !== undefined && !isValid(value))
        throw invalid(`train.checkpoint.${option} of job '${name}' must be ${least}, it is ${value}`);
  };
  check({ everySecs, everySteps, pauseTimeoutSecs }, 'above 0', (value) => value > 0);
  check({ keep, replicas, waitSecs }, 'at least 0', (value) => value >= 0);
}

function checkSummaries(name: string, summaries: SummariesOptions | false | undefined): void {
  const { everySteps, everySecs } = summaries || {};
  if (everySteps !== undefined && everySecs !== undefined)
    throw invalid(`train.summaries of job '${name}' has both everySteps and everySecs; set only one`);
  for (const [option, value] of Object.entries({ everySteps, everySecs })) {
    if (value !== undefined && !(value > 0))
      throw invalid(`train.summaries.${option} of job '${name}' must be above 0, it is ${value}`);
  }
}

function checkEvaluate(
  name: string,
  evaluate: Pick<EvaluateOptions, 'batches' | 'pollSecs' | 'everySecs' | 'everySteps'> | undefined,
): void {
  const { batches = 1, pollSecs, everySecs, everySteps } = evaluate ?? {};
  if (!Number.isSafeInteger(batches) || batches < 1)
    throw invalid(`evaluate.batches of job '${name}' must be an integer of at least 1, it is ${batches}`);
  for (const [option, value] of Object.entries({ pollSecs, everySecs, everySteps }))
    if (value !== undefined && !(value > 0))
      throw invalid(`evaluate.${option} of job '${name}' must be above 0, it is ${value}`);
}

function checkExport(
  name: string,
  {
    export: given,
    evaluate,
  }: { readonly export?: Omit<ExportOptions, 'signatures'>; readonly evaluate?: unknown },
): void {
  if (!given) return;
  const { everySteps, everySecs, latest = 0, best, examples } = given;
  if (examples !== undefined && 'signatures' in given && given.signatures)
    throw invalid(`export of job '${name}' has both examples and signatures`, {
      hint: 'Parse the examples in signatures: model(tf.parseExample(examples, spec)).',
    });
  if (
    examples !== undefined &&
    examples !== null &&
    typeof examples !== 'function' &&
    typeof examples !== 'object'
  )
    throw invalid(`export.examples of job '${name}' must be a specification for tf.parseExample`);
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
    throw invalid(`export.latest of job '${name}' must be an integer of at least 0, it is ${latest}`);
  if (best && !evaluate) {
    throw invalid(
      `export.best of job '${name}' needs an evaluation: the evaluator finds the best checkpoint`,
      {
        hint: `Add evaluate: { metrics: … } with the metric '${best.metric}'.`,
      },
    );
  }
}

/** The job as if it had no `evaluate`. */
export function withoutEvaluation(job: JobDefinition): JobDefinition {
  const { evaluate: _, export: exported, ...others } = job;
  const rest = { ...others, train: withoutDecisions(job.train) };
  if (!exported) return rest;
  const { best: __, ...exports } = exported;
  return { ...rest, export: exports };
}

/** Whether the default export of a file is a job. */
export function isJob(value: unknown): value is JobDefinition {
  return typeof value === 'object' && value !== null && (value as Partial<JobDefinition>)[JOB] === true;
}
