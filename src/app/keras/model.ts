/**
 * A model in the manner of Keras. `fit`, `evaluate` and `predict` run in this process; `toJob` makes a job of the same
 * layers, loss and optimizer, which `shoal run` trains on a cluster.
 */

import { invalid, ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { seededRandom } from '../../tensorflow/tensor/seeded-random.js';
import { formatShape, isCompatible } from '../../tensorflow/tensor/shape.js';
import type { Tensor, TensorLike } from '../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import type { Results } from '../../training/train/evaluation/evaluate.js';
import type { JobOptions, JobParams } from '../job/definition/define-job.js';
import { jobOf, type LabeledInput, type ModelJobOptions, type ModelOutputs } from './job.js';
import { checkOptions } from './known-options.js';
import { Layer, SymbolicTensor } from './layer.js';
import { Network } from './network.js';
import { saveTraining } from './saving/saved-training.js';
import { modelJson } from './saving/to-json.js';
import { describeNetwork, type InputTypes } from './summary.js';
import type { FitControl } from './training/callback.js';
import { classTable } from './training/class-weights.js';
import { type Compiled, type CompileOptions, compiled } from './training/compile.js';
import {
  asTensor,
  type Batch,
  batchesOf,
  type Examples,
  type Labels,
  Rows,
  refuseShards,
} from './training/data.js';
import {
  BATCH_SIZE,
  checkFitCount,
  type FitOptions,
  type FitParts,
  fitSource,
  type History,
  limited,
} from './training/fit.js';
import { checkLabels, conform, joined, ModelData } from './training/model-data.js';
import { inputTypes, ModelSession } from './training/model-session.js';
import {
  type BatchSource,
  batchParts,
  type FitSource,
  type GivenBatch,
  isSource,
  openSource,
  rowSource,
} from './training/sources.js';

export interface ModelOptions {
  /** The seed of initial values and of dropout; default: none, random. */
  readonly seed?: number;
}

/** One output, or several. */
export type ModelResults = SymbolicTensor | readonly SymbolicTensor[];
/** The predictions of a model: a list if it has several outputs. */
export type Predictions<R extends ModelResults> = R extends readonly SymbolicTensor[]
  ? { readonly [K in keyof R]: Tensor }
  : Tensor;

export interface FunctionalOptions<R extends ModelResults = SymbolicTensor> extends ModelOptions {
  readonly inputs: SymbolicTensor | readonly SymbolicTensor[];
  /** A list for a model of several outputs, which have the names of the layers that make them. */
  readonly outputs: R;
}

export interface BatchOptions {
  /** Examples per run. Default: 32. */
  readonly batchSize?: number;
  /** Default: none. */
  readonly signal?: AbortSignal;
}

export interface ModelEvaluateOptions extends BatchOptions {
  /** The weight of each example of arrays; default: 1. */
  readonly sampleWeight?: TensorLike;
  /** Batches to evaluate; default: all. */
  readonly steps?: number;
}

export class Model<const R extends ModelResults = SymbolicTensor> implements AsyncDisposable {
  readonly #network: Network;
  readonly #options: ModelOptions;
  readonly #data: ModelData;
  /** Whether the predictions are a list. */
  readonly #isList: boolean;
  #compiled: Compiled | undefined;
  #layer: Layer | undefined;
  /** Set when the model is built. */
  #opened: { readonly types: InputTypes; readonly session: Promise<ModelSession> } | undefined;

  constructor({ inputs, outputs, ...options }: FunctionalOptions<R>) {
    this.#isList = Array.isArray(outputs);
    this.#network = new Network(listOf(inputs), listOf(outputs));
    this.#data = new ModelData(this.#network);
    this.#options = options;
  }

  /** The model as a layer of other models, which share its weights: `model.apply(x)`. */
  asLayer(name?: string): Layer {
    const network = this.#network;
    this.#layer ??= new Layer({
      kind: 'functional',
      name,
      body: (inputs, call) => network.buildWithin(inputs, call),
      inner: network.layers,
      outputCount: network.outputTensors.length,
      saved: { className: 'Functional', config: { network } },
    });
    return this.#layer;
  }

  /** Applies the model to what layers return, or other inputs. */
  apply(inputs: SymbolicTensor | readonly SymbolicTensor[]): R {
    const found = this.asLayer().applyAll(inputs);
    return (this.#isList ? found : found[0]) as R;
  }

  /** The architecture as the JSON of Keras, for `modelFromJson` and Python's `keras.models.model_from_json`. */
  toJson(): string {
    const types = this.#opened?.types ?? inputTypes(this.#network);
    return JSON.stringify(modelJson(this.#network, types, 'functional'));
  }

  /** Sets how the model is trained. The weights stay; the state of an earlier optimizer is not used. */
  compile(given: OrNull<CompileOptions>): this {
    const options = withoutNull<CompileOptions>(given);
    checkOptions('compile', options);
    this.#compiled = compiled(options, this.#network.outputNames);
    return this;
  }

  /**
   * Trains on examples in memory, or on a dataset or generator of batches. Another call continues with the current
   * weights.
   */
  fit(source: FitSource, options?: OrNull<FitOptions>): Promise<History>;
  fit(x: Examples, y: Labels, options?: OrNull<FitOptions>): Promise<History>;
  async fit(x: Examples | FitSource, second?: unknown, third?: unknown): Promise<History> {
    const { given, y, options: raw } = this.#arguments<FitOptions>('fit', x, second, third);
    const options = withoutNull<FitOptions>(raw);
    const {
      batchSize = BATCH_SIZE,
      shuffle = true,
      seed,
      sampleWeight,
      classWeight,
      validationSplit,
      validationData,
    } = options;
    const plan = this.#compiledFor('fit');
    checkFitCount('batchSize', batchSize);
    if (classWeight && plan.outputs.length > 1)
      throw invalid('classWeight is for models with one output; give sampleWeight');
    if (validationSplit !== undefined && validationData !== undefined)
      throw invalid('fit has both validationSplit and validationData; give one');
    if (isSource(given)) {
      const arrays = {
        sampleWeight,
        validationSplit,
        batchSize: options.batchSize,
        shuffle: options.shuffle,
        seed,
      };
      const wrong = Object.entries(arrays).find(([, value]) => value !== undefined)?.[0];
      if (wrong)
        throw invalid(
          `${wrong} of fit is for arrays; the batches of a dataset or generator are used as they come`,
          {
            hint:
              wrong === 'sampleWeight'
                ? 'A batch has it as its third part, or by this name.'
                : 'Shuffle, batch and split the dataset itself.',
          },
        );
    }
    const all = isSource(given) ? undefined : this.#data.rows('fit', { x: given, y, sampleWeight });
    const [rows, held] = all && validationSplit !== undefined ? all.split(validationSplit) : [all, undefined];
    const random = shuffle ? (seed === undefined ? Math.random : seededRandom(seed)) : undefined;
    const opened: BatchSource[] = [];
    try {
      const validation = held ?? validationData;
      const { session, prepared, source } = await this.#open(
        'fit',
        '',
        rows ?? (given as FitSource),
        batchSize,
        random,
        opened,
      );
      const evaluated =
        validation === undefined
          ? undefined
          : await this.#open(
              'fit',
              'validationData: ',
              validationOf(this.#data, validation),
              batchSize,
              undefined,
              opened,
            );
      const classes = session.predictions[0]?.shape?.at(-1) ?? null;
      const parts: FitParts = {
        session,
        plan: prepared,
        source,
        validation: evaluated?.source,
        classTable: classWeight && classTable(classWeight, classes),
        control: { model: this, ...this.#rates(session, plan) },
      };
      return await fitSource(parts, options);
    } finally {
      for (const source of opened) await source.close();
    }
  }

  /** The loss and the metrics over all examples. */
  evaluate(source: FitSource, options?: OrNull<ModelEvaluateOptions>): Promise<Results>;
  evaluate(x: Examples, y: Labels, options?: OrNull<ModelEvaluateOptions>): Promise<Results>;
  async evaluate(x: Examples | FitSource, second?: unknown, third?: unknown): Promise<Results> {
    const { given, y, options: raw } = this.#arguments<ModelEvaluateOptions>('evaluate', x, second, third);
    const { batchSize = BATCH_SIZE, sampleWeight, steps, signal } = withoutNull<ModelEvaluateOptions>(raw);
    checkFitCount('batchSize', batchSize);
    if (steps !== undefined) checkFitCount('steps', steps);
    this.#compiledFor('evaluate');
    const own = isSource(given) ? given : this.#data.rows('evaluate', { x: given, y, sampleWeight });
    const opened: BatchSource[] = [];
    try {
      const { session, prepared, source } = await this.#open(
        'evaluate',
        '',
        own,
        batchSize,
        undefined,
        opened,
      );
      return await session.evaluate(prepared, limited(source.open(), steps), signal);
    } finally {
      for (const source of opened) await source.close();
    }
  }

  /** The output for all examples; a list for a model whose `outputs` are a list. */
  async predict(x: Examples, given: OrNull<BatchOptions> = {}): Promise<Predictions<R>> {
    const options = withoutNull<BatchOptions>(given);
    if (isSource(x))
      throw invalid('predict takes examples in memory, not a dataset or generator', {
        hint: 'Call predict for each of its batches.',
      });
    checkOptions('predict', options);
    const { batchSize = BATCH_SIZE, signal } = options;
    checkFitCount('batchSize', batchSize);
    const rows = this.#data.rows('predict', { x });
    const session = await this.#session(rows.tensors);
    const parts: (readonly Tensor[])[] = [];
    for (const batch of batchesOf(rows, batchSize)) parts.push(await session.predict(batch, signal));
    const all = session.predictions.map((_, i) => joined(parts.map((part) => part[i] as Tensor)));
    return (this.#isList ? all : all[0]) as Predictions<R>;
  }

  /** Prints the layers, their output shapes and their numbers of parameters. */
  summary({ log = console.log }: { readonly log?: (text: string) => void } = {}): void {
    log(describeNetwork(this.#network, this.#opened?.types ?? inputTypes(this.#network)));
  }

  /** The weights by name, for example `dense/kernel`. */
  async getWeights(): Promise<Readonly<Record<string, Tensor>>> {
    return (await this.#session()).readWeights();
  }

  /** Replaces weights. Those that are not given keep their values. */
  async setWeights(values: Readonly<Record<string, TensorLike>>): Promise<void> {
    const session = await this.#session();
    if (Array.isArray(values))
      throw invalid('setWeights takes the weights by name, as getWeights returns them', {
        hint: `The names are ${session.weights.map((one) => one.name).join(', ')}.`,
      });
    const pairs = Object.entries(values).map(([name, value]) => {
      const variable = session.weights.find((one) => one.name === name);
      if (variable) return [variable, weightFor(variable, value)] as const;
      throw invalid(`The model has no weight '${name}'`, {
        hint: `Its weights are ${session.weights.map((one) => one.name).join(', ')}.`,
      });
    });
    await session.writeWeights(pairs);
  }

  /**
   * Exports the model as a SavedModel with the signature `serving_default`, which takes the inputs by name and returns
   * `prediction`, or several outputs by name. The directory must not exist, or be empty. Its `assets.extra` has what
   * `loadModel` needs to train the model further, except layers that are functions.
   */
  async save(directory: string): Promise<string> {
    const session = await this.#session();
    const made = await session.export(directory);
    await saveTraining(directory, {
      architecture: () => this.toJson(),
      compiled: this.#compiled,
      checkpoint: (prefix) => session.saveCheckpoint(prefix, true),
    });
    return made;
  }

  /** Writes the weights as a checkpoint of TensorFlow: `prefix.index` and `prefix.data-00000-of-00001`. */
  async saveWeights(prefix: string): Promise<void> {
    await (await this.#session()).saveCheckpoint(prefix, false);
  }

  /** Restores weights that `saveWeights` or a job wrote. */
  async loadWeights(prefix: string): Promise<void> {
    await (await this.#session()).restoreCheckpoint(prefix, false);
  }

  /** Restores a checkpoint with the state of the optimizer. @internal */
  async restoreTraining(prefix: string): Promise<void> {
    await (await this.#session()).restoreCheckpoint(prefix, true);
  }

  /**
   * The options of a job that trains this model: `defineJob(model.toJob({ name, input, train }))`. Its input has the
   * inputs of the model by name (default: `x`), the labels `y`, or `y/NAME` of several outputs, and optionally
   * `sampleWeight`. The job begins with new weights, or with those of a checkpoint, `initialWeights`.
   */
  toJob<I extends LabeledInput, P extends JobParams = Record<never, never>>(
    options: ModelJobOptions<I, P>,
  ): JobOptions<I, ModelOutputs, P> {
    const compiled = this.#compiledFor('toJob');
    return jobOf({ network: this.#network, compiled, seed: this.#options.seed, data: this.#data }, options);
  }

  /**
   * Frees the memory of the model; another call of `fit` begins with new weights. The weights of layers that other models
   * contain too are kept.
   */
  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    await (await opened?.session)?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #compiledFor(method: string): Compiled {
    if (this.#compiled) return this.#compiled;
    throw invalid(`${method} needs a compiled model`, {
      hint: "Call model.compile({ optimizer: 'adam', loss: 'meanSquaredError' }) first.",
    });
  }

  /** `(x, y, options)` or `(source, options)`. */
  #arguments<O extends object>(
    method: 'fit' | 'evaluate',
    given: Examples | FitSource,
    second: unknown,
    third: unknown,
  ) {
    refuseShards(method, given);
    const isOne = isSource(given);
    if (isOne && third !== undefined)
      throw invalid(`${method} of a dataset or generator takes no labels: ${method}(source, options)`);
    const options = ((isOne ? second : third) ?? {}) as OrNull<O>;
    checkOptions(method, options);
    return { given, y: (isOne ? undefined : second) as Labels | undefined, options };
  }

  /** A source of checked batches, and what is built for them. */
  async #open(
    method: string,
    what: string,
    given: Rows | FitSource,
    batchSize: number,
    random: (() => number) | undefined,
    opened: BatchSource[],
  ) {
    const compiled = this.#compiledFor(method);
    const checked = (rows: Rows, session: ModelSession): Rows => {
      checkLabels(compiled, what, rows, session.predictions);
      return conform(rows, session.prepare(compiled, this.#data.labels(rows)).labels);
    };
    if (given instanceof Rows) {
      const session = await this.#session(given.tensors);
      const rows = checked(given, session);
      const source = rowSource(rows, batchSize, random);
      return { session, prepared: session.prepare(compiled, this.#data.labels(rows)), source };
    }
    let session: ModelSession | undefined;
    const read = (batch: GivenBatch): Batch => {
      const rows = this.#data.rows(method, batchParts(batch, method));
      return session ? checked(rows, session).tensors : rows.tensors;
    };
    const source = openSource(given, read);
    opened.push(source);
    // The first batch has the types of the inputs.
    const first = source.open();
    const next = await first.next();
    if (next.done) throw invalid(`${what}The input of ${method} has no batch`);
    session = await this.#session(next.value);
    const rows = checked(new Rows(next.value), session);
    return {
      session,
      prepared: session.prepare(compiled, this.#data.labels(rows)),
      source: source.withFirst(first, rows.tensors),
    };
  }

  #rates(
    session: ModelSession,
    { optimizer }: Compiled,
  ): Pick<FitControl, 'learningRate' | 'scaleLearningRate'> {
    return {
      learningRate: async () => {
        const { learningRate } = optimizer;
        if (typeof learningRate === 'number') return learningRate * (await session.rateFactor());
        throw new ShoalError('SHOAL_UNSUPPORTED', 'The learning rate of the optimizer is not one number', {
          hint: 'It is a schedule, or there are several optimizers: scaleLearningRate(0.1) multiplies them all.',
        });
      },
      scaleLearningRate: async (factor) => session.setRateFactor((await session.rateFactor()) * factor),
    };
  }

  #session(examples?: Readonly<Record<string, Tensor>>): Promise<ModelSession> {
    if (this.#opened) return this.#opened.session;
    const types = inputTypes(this.#network, examples);
    const { seed } = this.#options;
    const session = ModelSession.open(this.#network, { seed, types }).catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    this.#opened = { types, session };
    return session;
  }
}

const listOf = <T>(given: T | readonly T[]): readonly T[] =>
  Array.isArray(given) ? (given as readonly T[]) : [given as T];

function validationOf(
  data: ModelData,
  given: Rows | NonNullable<FitOptions['validationData']>,
): Rows | FitSource {
  if (given instanceof Rows || isSource(given)) return given;
  const [x, y, sampleWeight] = given;
  return data.rows('fit', { x, y, sampleWeight });
}

/** The value of a weight, with its dtype. */
function weightFor({ name, dtype, shape }: Variable, value: TensorLike): Tensor {
  const tensor = asTensor(value, dtype);
  if (isCompatible(tensor.shape, shape)) return tensor;
  throw invalid(
    `The weight '${name}' has shape ${formatShape(shape)}; setWeights got ${formatShape(tensor.shape)}`,
    {
      hint: 'Give each weight as getWeights of a model with the same layers returns it.',
    },
  );
}

/** Layers one after another: the first element may be `tf.keras.Input`; default: the shape of the first examples. */
export class Sequential extends Model {
  constructor(layers: readonly (Layer | Model | SymbolicTensor)[], options: ModelOptions = {}) {
    const [first, ...others] = layers;
    const isGiven = first instanceof SymbolicTensor;
    const input = isGiven ? first : new SymbolicTensor({ input: { name: 'x', type: undefined } });
    let output = input;
    for (const given of isGiven ? others : layers) {
      const layer = given instanceof Model ? given.asLayer() : given;
      if (!(layer instanceof Layer))
        throw invalid('A Sequential model consists of layers; tf.keras.Input can only be the first element');
      output = layer.apply(output);
    }
    super({ ...options, inputs: input, outputs: output });
  }
}
