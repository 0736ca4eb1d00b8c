/** A model as a job, which `shoal run` trains in one process or on a cluster. */
import { invalid, ShoalError } from '../../base/errors/errors.js';
import { checkNames } from '../../base/errors/option-names.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import type { Operand } from '../../tensorflow/ops/build.js';
import { constant } from '../../tensorflow/ops/creation.js';
import { mul } from '../../tensorflow/ops/math.js';
import type { TensorLike } from '../../tensorflow/tensor/tensor.js';
import { globalVariables } from '../../tensorflow/variables/variable-scope.js';
import { initFromCheckpoint, nameInCheckpoint } from '../../tensorflow/variables/warm-start.js';
import type { Dataset } from '../../training/input/dataset/dataset.js';
import { fromTensorSlices } from '../../training/input/dataset/sources.js';
import type {
  EvaluateOptions,
  InputValues,
  JobOptions,
  JobParams,
  TrainOptions,
} from '../job/definition/define-job.js';
import type { Network } from './network.js';
import type { FitCallback } from './training/callback.js';
import { type ClassWeight, classTable } from './training/class-weights.js';
import type { Compiled } from './training/compile.js';
import { type Examples, type Labels, labelRows } from './training/data.js';
import { BATCH_SIZE, type FitOptions } from './training/fit.js';
import type { ModelData } from './training/model-data.js';
import {
  classWeights,
  type LabelOutputs as GraphLabels,
  type ModelGraph,
  metricsOf,
  modelParts,
  trainingParts,
} from './training/model-graph.js';

/**
 * The input of a job: the inputs of the model by name (default: `x`), the labels `y`, or `y/NAME` of several outputs, and
 * optionally the weights of the examples, `sampleWeight`.
 */
export type LabeledInput = InputValues &
  ({ readonly y: Operand } | { readonly [name: `y/${string}`]: Operand });
export type ModelOutputs = { readonly prediction: Output };

/** What `fit` takes and a job has too. */
export interface FitJobOptions {
  /** With `stepsPerEpoch`: training ends after so many epochs, unless `train.lastStep` is set. */
  readonly epochs?: number;
  /** The steps of an epoch. */
  readonly stepsPerEpoch?: number;
  /** The weight of each class by its number, for a model with one output. Default: 1. */
  readonly classWeight?: ClassWeight;
  /** A checkpoint with the values that the weights begin with, such as one of `saveWeights`. Default: none. */
  readonly initialWeights?: string;
  /** Arrays to evaluate; or use `evaluate: { input }`. Default: none. */
  readonly validationData?: readonly [x: Examples, y: Labels, sampleWeight?: TensorLike];
}

type Own<I extends LabeledInput, P extends JobParams> = Omit<
  JobOptions<I, ModelOutputs, P>,
  'model' | 'input' | 'train'
>;
export type ModelJobOptions<I extends LabeledInput, P extends JobParams> = Own<I, P> &
  FitJobOptions & {
    readonly input: NonNullable<JobOptions<I, ModelOutputs, P>['input']>;
    readonly train?: Omit<TrainOptions, 'lastStep'> & Partial<Pick<TrainOptions, 'lastStep'>>;
  };

export interface JobModelParts {
  readonly network: Network;
  readonly compiled: Compiled;
  readonly data: ModelData;
  readonly seed: number | undefined;
}

/** The model of an evaluation, whose metrics are built next. */
interface Evaluated {
  readonly parts: ModelGraph;
  readonly labels: GraphLabels;
}

/** What the options of `fit` are in a job. */
const IN_JOB: Partial<Record<keyof FitOptions, string>> = {
  batchSize: 'the batches of input: dataset.batch(32)',
  shuffle: 'the order of input: dataset.shuffle(10_000)',
  sampleWeight: 'sampleWeight in what input returns',
  validationSplit: 'evaluate: { input }, other records than those of training',
  validationSteps: 'evaluate: { batches }',
  initialEpoch: 'nothing: a job continues at the step of its checkpoint',
  verbose: 'train: { logEverySecs }',
  output: 'train: { logEverySecs }, and `shoal run --json`',
  signal: 'SIGTERM, or the signal of runInProcess',
};

export function jobOf<I extends LabeledInput, P extends JobParams>(
  { network, compiled, data, seed: ownSeed }: JobModelParts,
  given: ModelJobOptions<I, P>,
): JobOptions<I, ModelOutputs, P> {
  refuseFitOptions(given);
  const { epochs, stepsPerEpoch, classWeight, initialWeights, validationData, ...options } =
    given as ModelJobOptions<I, P> & FitJobOptions;
  if (classWeight && compiled.outputs.length > 1)
    throw invalid('classWeight is for models with one output; input may return sampleWeight');
  const evaluated = new WeakMap<Graph, Evaluated>();
  const lastStep = lastStepOf(options.train?.lastStep, epochs, stepsPerEpoch);
  const seed = options.seed ?? ownSeed;
  const evaluate = validationData
    ? { ...options.evaluate, input: () => validationOf(data, validationData) as never }
    : options.evaluate;
  return {
    ...(options as unknown as JobOptions<I, ModelOutputs, P>),
    train: { ...options.train, lastStep },
    ...(seed === undefined ? {} : { seed }),
    model: ({ input, training }) => {
      const { labels, inputs } = partsOf(compiled, input as Readonly<Record<string, Output>>);
      const build = () =>
        withValues(training ? initialWeights : undefined, () => network.build(inputs, { training }));
      if (!training) {
        const parts = modelParts(compiled, build(), labels);
        evaluated.set(parts.loss.graph, { parts, labels });
        return {
          loss: parts.loss,
          optimizer: compiled.optimizer,
          outputs: outputsOf(network, parts.predictions),
        };
      }
      let weights = labels.weights;
      const parts = trainingParts(compiled, labels, build, (predictions) => {
        if (!classWeight) return labels;
        const p = predictions[0] as Output;
        const table = constant(classTable(classWeight, p.shape?.at(-1) ?? null));
        const own = classWeights(labels.ys[0] as Output, p, table);
        weights = weights ? mul(weights, own) : own;
        return { ...labels, weights };
      });
      return {
        loss: parts.loss,
        optimizer: compiled.optimizer,
        outputs: outputsOf(network, parts.predictions),
      };
    },
    ...(evaluate && {
      evaluate: {
        metrics: ({ loss }) => {
          const { parts, labels } = evaluated.get(loss.toOutput().graph) as Evaluated;
          return metricsOf(compiled, parts, labels);
        },
        ...evaluate,
      } as EvaluateOptions<I, ModelOutputs, P>,
    }),
  };
}

/** What is built has variables that begin with the values of a checkpoint. */
function withValues<T>(checkpoint: string | undefined, build: () => T): T {
  const before = new Set(globalVariables());
  const built = build();
  if (checkpoint === undefined) return built;
  const names = globalVariables()
    .filter((variable) => !before.has(variable))
    .map(nameInCheckpoint);
  initFromCheckpoint(checkpoint, Object.fromEntries(names.map((name) => [name, name])));
  return built;
}

function outputsOf(network: Network, predictions: readonly Output[]): ModelOutputs {
  return Object.fromEntries(
    network.outputNames.map((name, i) => [name, predictions[i] as Output]),
  ) as unknown as ModelOutputs;
}

/** The inputs of the model, and its labels. */
function partsOf(
  { outputs }: Compiled,
  given: Readonly<Record<string, Output | SparseTensor>>,
): { readonly inputs: Readonly<Record<string, Output>>; readonly labels: GraphLabels } {
  const names = labelRows(outputs.map(({ name }) => name));
  const inputs = Object.fromEntries(
    Object.entries(given).filter(([name]) => name !== 'sampleWeight' && !names.includes(name)),
  ) as Readonly<Record<string, Output>>;
  const ys = names.map((name) => {
    const y = given[name];
    if (y && !(y instanceof SparseTensor)) return y;
    throw invalid(`The input of the job has no labels '${name}'`, {
      hint: `input must return the inputs of the model by name, and ${names.join(', ')}; it returns ${Object.keys(given).join(', ')}.`,
    });
  });
  return { inputs, labels: { ys, weights: given.sampleWeight as Output | undefined } };
}

function lastStepOf(
  lastStep: number | undefined,
  epochs: number | undefined,
  steps: number | undefined,
): number {
  if (lastStep !== undefined && epochs === undefined) return lastStep;
  if (lastStep === undefined && epochs !== undefined && steps !== undefined) return epochs * steps;
  throw invalid('toJob needs train: { lastStep }, or epochs and stepsPerEpoch', {
    hint: 'A job counts steps: the steps of all workers together.',
  });
}

const validationOf = (
  data: ModelData,
  [x, y, sampleWeight]: NonNullable<FitJobOptions['validationData']>,
): Dataset =>
  fromTensorSlices({ ...data.rows('toJob', { x, y, sampleWeight }).tensors }).batch(BATCH_SIZE) as Dataset;

/** An option of `fit` that a job does not have is an error that says what a job has. */
function refuseFitOptions(given: object): void {
  const { callbacks } = given as { readonly callbacks?: unknown };
  if (Array.isArray(callbacks)) {
    const [first] = callbacks as readonly FitCallback[];
    throw unsupported('callbacks of fit', first?.inJob ?? 'callbacks: { onStep }, functions of the job');
  }
  for (const [option, instead] of Object.entries(IN_JOB))
    if (option in given) throw unsupported(`'${option}'`, instead);
  const job = [
    'name',
    'params',
    'input',
    'train',
    'evaluate',
    'export',
    'hooks',
    'callbacks',
    'engine',
    'seed',
  ];
  const known = [...job, 'epochs', 'stepsPerEpoch', 'classWeight', 'initialWeights', 'validationData'];
  checkNames(
    given,
    Object.fromEntries(known.map((name) => [name, true])),
    (name) => `toJob has an unknown option '${name}'`,
  );
}

const unsupported = (what: string, instead: string): ShoalError =>
  new ShoalError('SHOAL_UNSUPPORTED', `toJob does not take ${what}`, { hint: `A job has ${instead}.` });
