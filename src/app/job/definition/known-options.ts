/** Rejects misspelled options of a job: they would be ignored. `shoal run` does not check types. */
import { invalid } from '../../../base/errors/errors.js';
import { checkNames, type Names } from '../../../base/errors/option-names.js';
import type { JobCallbacks } from './callbacks.js';
import type {
  CheckpointOptions,
  EvaluateOptions,
  ExportOptions,
  JobOptions,
  SummariesOptions,
  TrainOptions,
} from './define-job.js';
import type { MetricEarlyStopping, OutputEarlyStopping, ReduceLearningRate } from './metric-options.js';

const JOB: Names<JobOptions> = {
  name: true,
  params: true,
  input: true,
  model: true,
  train: true,
  evaluate: true,
  export: true,
  hooks: true,
  callbacks: true,
  engine: true,
  seed: true,
};
const TRAIN: Names<TrainOptions> = {
  lastStep: true,
  inflight: true,
  sync: true,
  input: true,
  elastic: true,
  checkpoint: true,
  summaries: true,
  onNan: true,
  earlyStopping: true,
  reduceLearningRate: true,
  recovery: true,
  stepTimeoutSecs: true,
  logEverySecs: true,
};
const CHECKPOINT: Names<CheckpointOptions> = {
  everySecs: true,
  everySteps: true,
  keep: true,
  everyHours: true,
  consistency: true,
  store: true,
  replicas: true,
  directory: true,
  gather: true,
  waitSecs: true,
  lastSaveSecs: true,
  pauseTimeoutSecs: true,
};
const SUMMARIES: Names<SummariesOptions> = { everySteps: true, everySecs: true, directory: true };
const EARLY_STOPPING: Names<OutputEarlyStopping & MetricEarlyStopping> = {
  output: true,
  mode: true,
  maxStepsWithoutImprovement: true,
  minDelta: true,
  minSteps: true,
  metric: true,
  patience: true,
  restoreBest: true,
};
const REDUCE_LEARNING_RATE: Names<ReduceLearningRate> = {
  metric: true,
  mode: true,
  factor: true,
  patience: true,
  minDelta: true,
  cooldown: true,
  min: true,
};
const EVALUATE: Names<EvaluateOptions> = {
  input: true,
  metrics: true,
  batches: true,
  pollSecs: true,
  everySecs: true,
  everySteps: true,
  best: true,
};
const EXPORT: Names<ExportOptions> = {
  signatures: true,
  examples: true,
  everySteps: true,
  everySecs: true,
  latest: true,
  best: true,
  directory: true,
  publish: true,
};
const CALLBACKS: Names<JobCallbacks> = { onStep: true, onSave: true, onRecover: true, onEnd: true };

export function checkOptionNames(options: Pick<JobOptions, 'name'>): void {
  const { name, train, evaluate, export: exporting, callbacks, hooks } = options as JobOptions;
  const check = (given: unknown, known: object, where: string): void =>
    checkNames(given, known, (unknown) => `Job '${name}' has an unknown option '${where}${unknown}'`);
  check(options, JOB, '');
  check(train, TRAIN, 'train.');
  check(train?.checkpoint, CHECKPOINT, 'train.checkpoint.');
  check(train?.summaries, SUMMARIES, 'train.summaries.');
  check(train?.earlyStopping, EARLY_STOPPING, 'train.earlyStopping.');
  check(train?.reduceLearningRate, REDUCE_LEARNING_RATE, 'train.reduceLearningRate.');
  check(evaluate, EVALUATE, 'evaluate.');
  check(exporting, EXPORT, 'export.');
  check(callbacks, CALLBACKS, 'callbacks.');
  if (hooks != null && typeof hooks !== 'function')
    throw invalid(`hooks of job '${name}' must be a function that returns a list`, {
      hint: 'Write hooks: () => [new MyHook()].',
    });
}
