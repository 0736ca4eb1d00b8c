/**
 * A model in the manner of Keras. `fit`, `evaluate` and `predict` run in this process; `toJob` makes a job of the same
 * layers, loss and optimizer, which `shoal run` trains on a cluster.
 */
import { invalid, messageOf } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import type { InputValues, JobOptions, JobParams } from '../job/define-job.js';
import type { Operand } from '../ops/build.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';
import type { Results } from '../train/evaluation/evaluate.js';
import { type Compiled, type CompileOptions, compiled } from './compile.js';
import { asTensor, batchesOf, type Examples, namedExamples, Rows } from './data.js';
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

export interface FunctionalOptions extends ModelOptions {
  readonly inputs: SymbolicTensor | readonly SymbolicTensor[];
  readonly outputs: SymbolicTensor;
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

export class Model implements AsyncDisposable {
  readonly #network: Network;
  readonly #options: ModelOptions;
  #compiled: Compiled | undefined;
  /** Set when the model is built. */
  #opened: { readonly types: InputTypes; readonly session: Promise<ModelSession> } | undefined;

  constructor({ inputs, outputs, ...options }: FunctionalOptions) {
    this.#network = new Network(inputs instanceof SymbolicTensor ? [inputs] : inputs, outputs);
    this.#options = options;
  }

  /** Sets how the model is trained. The weights stay; the state of an earlier optimizer is not used. */
  compile(options: CompileOptions): this {
    checkOptions('compile', options);
    this.#compiled = compiled(options);
    return this;
  }

  /** Trains on examples in memory. Another call continues with the current weights. */
  async fit(x: Examples, y: TensorLike, options: FitOptions = {}): Promise<History> {
    checkOptions('fit', options);
    const { validationData, ...others } = options;
    const plan = this.#plan('fit');
    const rows = this.#rows(x, y);
    const validated = validationData && this.#rows(...validationData);
    const session = await this.#session(rows);
    checkLabels(plan, 'y', rows, session);
    if (validated) checkLabels(plan, 'validationData: y', validated, session);
    const training = await session.prepare(plan, rows.tensors.y as Tensor);
    const validation = validated && conform(validated, training.y);
    return fitRows({ session, training, rows: conform(rows, training.y), validation }, others);
  }

  /** The loss and the metrics over all examples. */
  async evaluate(x: Examples, y: TensorLike, options: BatchOptions = {}): Promise<Results> {
    checkOptions('evaluate', options);
    const { batchSize = BATCH_SIZE, signal } = options;
    checkCount('batchSize', batchSize);
    const plan = this.#plan('evaluate');
    const rows = this.#rows(x, y);
    const session = await this.#session(rows);
    checkLabels(plan, 'y', rows, session);
    const training = await session.prepare(plan, rows.tensors.y as Tensor);
    return session.evaluate(training, conform(rows, training.y), batchSize, signal);
  }

  /** The outputs for all examples. */
  async predict(x: Examples, options: BatchOptions = {}): Promise<Tensor> {
    checkOptions('predict', options);
    const { batchSize = BATCH_SIZE, signal } = options;
    checkCount('batchSize', batchSize);
    const rows = this.#rows(x);
    const session = await this.#session(rows);
    const parts: Tensor[] = [];
    for (const batch of batchesOf(rows, batchSize)) parts.push(await session.predict(batch, signal));
    return joined(parts);
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
    const pairs = Object.entries(values).map(([name, value]) => {
      const variable = session.weights.find((one) => one.name === name);
      if (variable) return [variable, asTensor(value, variable.dtype)] as const;
      throw invalid(`The model has no weight '${name}'`, {
        hint: `Its weights are ${session.weights.map((one) => one.name).join(', ')}.`,
      });
    });
    await session.writeWeights(pairs);
  }

  /**
   * Exports the model as a SavedModel with the signature `serving_default`, which takes the inputs by name and returns
   * `prediction`. The directory must not exist, or be empty.
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
    const { evaluate } = options;
    const { seed = this.#options.seed } = options;
    return {
      ...(options as JobOptions<I, ModelOutputs, P>),
      ...(seed === undefined ? {} : { seed }),
      model: ({ input, training }) => {
        const { y, ...inputs } = input as Readonly<Record<string, Output>>;
        const build = () => this.#network.build(inputs, { training });
        const { prediction, loss } = training
          ? trainingParts(plan, y as Output, build)
          : modelParts(plan, build(), y as Output);
        return { loss, optimizer: plan.optimizer, outputs: { prediction } };
      },
      ...(evaluate && {
        evaluate: {
          metrics: ({ input, loss, outputs: { prediction } }) => {
            const { y } = input as Readonly<Record<string, Output>>;
            return metricsOf(plan, { loss: loss.toOutput(), prediction }, y as Output);
          },
          ...evaluate,
        },
      }),
    };
  }

  /** Frees the memory of the model; another call of `fit` begins with new weights. */
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

  #rows(x: Examples, y?: TensorLike): Rows {
    const { inputs } = this.#network;
    const given = namedExamples(
      x,
      inputs.map(({ name }) => name),
    );
    const tensors = inputs.map(({ name, type }) => [name, asTensor(given[name]!, type?.dtype)] as const);
    const labels = y === undefined ? [] : [['y', asTensor(y)] as const];
    return new Rows(Object.fromEntries([...tensors, ...labels]));
  }
}

function checkLabels(
  { takesClasses }: Compiled,
  name: string,
  rows: Rows,
  { prediction }: ModelSession,
): void {
  if (takesClasses) checkClasses(name, rows.tensors.y as Tensor, prediction.shape?.at(-1) ?? null);
}

/** The rows with labels of the dtype that the graph was built for. */
function conform(rows: Rows, { dtype }: Output): Rows {
  const { y } = rows.tensors;
  if (!y || y.dtype === dtype) return rows;
  try {
    return new Rows({ ...rows.tensors, y: asTensor(y, dtype) });
  } catch (cause) {
    throw invalid(
      `The labels y are ${y.dtype}, those of the first call were ${dtype}; they cannot be converted: ${messageOf(cause)}`,
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
