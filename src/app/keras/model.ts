/**
 * A model in the manner of Keras. `fit`, `evaluate` and `predict` run in this process; `toJob` makes a job of the same
 * layers, loss and optimizer, which `shoal run` trains on a cluster.
 */

import { invalid, messageOf, ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import type { Operand } from '../../tensorflow/ops/build.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { formatShape, isCompatible } from '../../tensorflow/tensor/shape.js';
import { Tensor, type TensorLike } from '../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import type { Results } from '../../training/train/evaluation/evaluate.js';
import type { InputValues, JobOptions, JobParams } from '../job/definition/define-job.js';
import { type Compiled, type CompileOptions, compiled } from './compile.js';
import {
  asTensor,
  batchesOf,
  type Examples,
  type Labels,
  labelRows,
  labelsOf,
  namedExamples,
  Rows,
  refuseDataset,
} from './data.js';
import { BATCH_SIZE, checkCount, type FitOptions, fitRows, type History } from './fit.js';
import { checkOptions } from './known-options.js';
import { checkClasses } from './labels.js';
import { Layer, SymbolicTensor } from './layer.js';
import { metricsOf, modelParts, trainingParts } from './model-graph.js';
import { inputTypes, ModelSession } from './model-session.js';
import { Network } from './network.js';
import { describeNetwork, type InputTypes } from './summary.js';

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

/** The input of a job: the inputs of the model by name (default: `x`), and the labels `y`. */
export type LabeledInput = InputValues & { readonly y: Operand };
export type ModelOutputs = { readonly prediction: Output };
export type ModelJobOptions<I extends LabeledInput, P extends JobParams> = Omit<
  JobOptions<I, ModelOutputs, P>,
  'model' | 'input'
> & { readonly input: NonNullable<JobOptions<I, ModelOutputs, P>['input']> };

export class Model<const R extends ModelResults = SymbolicTensor> implements AsyncDisposable {
  readonly #network: Network;
  readonly #options: ModelOptions;
  /** Whether the predictions are a list. */
  readonly #isList: boolean;
  #compiled: Compiled | undefined;
  /** Set when the model is built. */
  #opened: { readonly types: InputTypes; readonly session: Promise<ModelSession> } | undefined;

  constructor({ inputs, outputs, ...options }: FunctionalOptions<R>) {
    this.#isList = Array.isArray(outputs);
    this.#network = new Network(listOf(inputs), listOf(outputs));
    this.#options = options;
  }

  /** Sets how the model is trained. The weights stay; the state of an earlier optimizer is not used. */
  compile(given: OrNull<CompileOptions>): this {
    const options = withoutNull<CompileOptions>(given);
    checkOptions('compile', options);
    this.#compiled = compiled(options, this.#network.outputNames);
    return this;
  }

  /** Trains on examples in memory. Another call continues with the current weights. */
  async fit(x: Examples, y: Labels, given: OrNull<FitOptions> = {}): Promise<History> {
    const options = withoutNull<FitOptions>(given);
    refuseDataset('fit', x);
    checkOptions('fit', options);
    const { validationData, ...others } = options;
    const plan = this.#plan('fit');
    const rows = this.#rows('fit', x, y);
    const validated = validationData && this.#rows('fit', ...validationData);
    const session = await this.#session(rows);
    checkLabels(plan, '', rows, session);
    if (validated) checkLabels(plan, 'validationData: ', validated, session);
    const training = await session.prepare(plan, this.#labels(rows));
    const validation = validated && conform(validated, training.labels);
    return fitRows({ session, training, rows: conform(rows, training.labels), validation }, others);
  }

  /** The loss and the metrics over all examples. */
  async evaluate(x: Examples, y: Labels, given: OrNull<BatchOptions> = {}): Promise<Results> {
    const options = withoutNull<BatchOptions>(given);
    refuseDataset('evaluate', x);
    checkOptions('evaluate', options);
    const { batchSize = BATCH_SIZE, signal } = options;
    checkCount('batchSize', batchSize);
    const plan = this.#plan('evaluate');
    const rows = this.#rows('evaluate', x, y);
    const session = await this.#session(rows);
    checkLabels(plan, '', rows, session);
    const training = await session.prepare(plan, this.#labels(rows));
    return session.evaluate(training, conform(rows, training.labels), batchSize, signal);
  }

  /** The output for all examples; a list for a model whose `outputs` are a list. */
  async predict(x: Examples, given: OrNull<BatchOptions> = {}): Promise<Predictions<R>> {
    const options = withoutNull<BatchOptions>(given);
    refuseDataset('predict', x);
    checkOptions('predict', options);
    const { batchSize = BATCH_SIZE, signal } = options;
    checkCount('batchSize', batchSize);
    const rows = this.#rows('predict', x);
    const session = await this.#session(rows);
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
   * `prediction`, or several outputs by name. The directory must not exist, or be empty.
   */
  async save(directory: string): Promise<string> {
    return (await this.#session()).save(directory);
  }

  /**
   * The options of a job that trains this model: `defineJob(model.toJob({ name, input, train }))`. Its input has the
   * inputs of the model by name (default: `x`) and the labels `y`. The job begins with new weights.
   */
  toJob<I extends LabeledInput, P extends JobParams = Record<never, never>>(
    options: ModelJobOptions<I, P>,
  ): JobOptions<I, ModelOutputs, P> {
    const plan = this.#plan('toJob');
    if (this.#network.outputNames.length > 1)
      throw new ShoalError('SHOAL_UNSUPPORTED', 'toJob makes jobs of models with one output', {
        hint: 'Write the model function of the job with tf.layers, and return the sum of the losses.',
      });
    const { evaluate } = options;
    const { seed = this.#options.seed } = options;
    return {
      ...(options as JobOptions<I, ModelOutputs, P>),
      ...(seed === undefined ? {} : { seed }),
      model: ({ input, training }) => {
        const { y, ...inputs } = input as Readonly<Record<string, Output>>;
        const build = () => this.#network.build(inputs, { training });
        if (!y)
          throw invalid("The input of the job has no labels 'y'", {
            hint: `input must return the inputs of the model by name, and y; it returns ${Object.keys(inputs).join(', ')}.`,
          });
        const { predictions, loss } = training
          ? trainingParts(plan, [y], build)
          : modelParts(plan, build(), [y]);
        return { loss, optimizer: plan.optimizer, outputs: { prediction: predictions[0] as Output } };
      },
      ...(evaluate && {
        evaluate: {
          metrics: ({ input, loss, outputs: { prediction } }) => {
            const { y } = input as Readonly<Record<string, Output>>;
            const own = loss.toOutput();
            return metricsOf(plan, { loss: own, losses: [own], predictions: [prediction] }, [y as Output]);
          },
          ...evaluate,
        },
      }),
    };
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

  #plan(method: string): Compiled {
    if (this.#compiled) return this.#compiled;
    throw invalid(`${method} needs a compiled model`, {
      hint: "Call model.compile({ optimizer: 'adam', loss: 'meanSquaredError' }) first.",
    });
  }

  #session(rows?: Rows): Promise<ModelSession> {
    if (this.#opened) return this.#opened.session;
    const types = inputTypes(this.#network, rows?.tensors);
    const { seed } = this.#options;
    const session = ModelSession.open(this.#network, { seed, types }).catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    this.#opened = { types, session };
    return session;
  }

  #rows(method: string, x: Examples, ...labels: readonly [y?: Labels]): Rows {
    const { inputs, outputNames } = this.#network;
    const given = namedExamples(
      x,
      inputs.map(({ name }) => name),
    );
    const tensors = inputs.map(
      ({ name, type }) => [name, exampleTensor(name, given[name]!, type?.dtype)] as const,
    );
    const names = labelRows(outputNames);
    const ys = method === 'predict' ? [] : labelsOf(method, labels[0] as Labels, outputNames);
    return new Rows(
      Object.fromEntries([...tensors, ...ys.map((y, i) => [names[i] as string, asTensor(y)] as const)]),
    );
  }

  #labels({ tensors }: Rows): Readonly<Record<string, Tensor>> {
    const names = labelRows(this.#network.outputNames);
    return Object.fromEntries(names.map((name) => [name, tensors[name] as Tensor]));
  }
}

const listOf = <T>(given: T | readonly T[]): readonly T[] =>
  Array.isArray(given) ? (given as readonly T[]) : [given as T];

/** An input's examples, of the dtype that the model declares. */
function exampleTensor(name: string, value: TensorLike, dtype: DType | undefined): Tensor {
  try {
    return asTensor(value, dtype);
  } catch (cause) {
    throw invalid(
      `The examples of input '${name}'${dtype ? `, which is ${dtype},` : ''} are wrong: ${messageOf(cause)}`,
      {
        cause,
      },
    );
  }
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

function checkLabels({ outputs }: Compiled, what: string, rows: Rows, { predictions }: ModelSession): void {
  const names = labelRows(outputs.map(({ name }) => name));
  for (const [i, { takesClasses }] of outputs.entries()) {
    const name = names[i] as string;
    const classes = predictions[i]?.shape?.at(-1) ?? null;
    if (takesClasses) checkClasses(`${what}${name}`, rows.tensors[name] as Tensor, classes);
  }
}

/** The rows with labels of the dtypes that the graph was built for. */
function conform(rows: Rows, labels: Readonly<Record<string, Output>>): Rows {
  return Object.entries(labels).reduce((all, [name, label]) => conformOne(all, name, label), rows);
}

function conformOne(rows: Rows, name: string, { dtype }: Output): Rows {
  const y = rows.tensors[name];
  if (!y || y.dtype === dtype) return rows;
  try {
    return new Rows({ ...rows.tensors, [name]: asTensor(y, dtype) });
  } catch (cause) {
    throw invalid(
      `The labels ${name} are ${y.dtype}, those of the first call were ${dtype}; they cannot be converted: ${messageOf(cause)}`,
      {
        cause,
        hint: `Give the labels of every call as ${y.dtype}, or call compile again; the weights stay.`,
      },
    );
  }
}

function joined(parts: readonly Tensor[]): Tensor {
  const [first] = parts;
  if (!first || parts.length === 1) return first as Tensor;
  const count = parts.reduce((sum, { shape }) => sum + (shape[0] as number), 0);
  const all = Tensor.allocate([count, ...first.shape.slice(1)], first.dtype);
  let at = 0;
  for (const { data } of parts as readonly Tensor<'float32'>[]) {
    (all.data as Float32Array).set(data, at);
    at += data.length;
  }
  return all;
}

/** Layers one after another: the first element may be `tf.keras.Input`; default: the shape of the first examples. */
export class Sequential extends Model {
  constructor(layers: readonly (Layer | SymbolicTensor)[], options: ModelOptions = {}) {
    const [first, ...others] = layers;
    const isGiven = first instanceof SymbolicTensor;
    const input = isGiven ? first : new SymbolicTensor({ input: { name: 'x', type: undefined } });
    let output = input;
    for (const layer of isGiven ? others : layers) {
      if (!(layer instanceof Layer))
        throw invalid('A Sequential model consists of layers; tf.keras.Input can only be the first element');
      output = layer.apply(output);
    }
    super({ ...options, inputs: input, outputs: output });
  }
}
