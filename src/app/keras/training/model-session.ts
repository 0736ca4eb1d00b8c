/** A model in this process: its graph, and a session that holds the values of its variables. */
import { setMaxListeners } from 'node:events';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { invalid } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { mul } from '../../../tensorflow/ops/math.js';
import { formatShape, isCompatible } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { getOrCreateGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import {
  globalVariables,
  localVariables,
  newVariable,
} from '../../../tensorflow/variables/variable-scope.js';
import { simpleSave } from '../../../training/saved-model/writing/simple-save.js';
import { type OpenedTraining, openTraining } from '../../../training/train/core/open-training.js';
import { evaluate, type Results, type StreamingMetric } from '../../../training/train/evaluation/evaluate.js';
import { Coordinator } from '../../../training/train/recovery/coordinator.js';
import type { Built } from '../layer.js';
import { WeightCopies } from '../layer-weights.js';
import type { Network } from '../network.js';
import { CheckpointFiles } from '../saving/checkpoint-files.js';
import type { InputTypes } from '../summary.js';
import type { Compiled } from './compile.js';
import type { Batch } from './data.js';
import { classWeights, type LabelOutputs, metricsOf, modelParts, trainingParts } from './model-graph.js';

type Named<T> = Readonly<Record<string, T>>;
type Metrics = Named<StreamingMetric>;

/** The labels of a compiled model, and what was built for them. */
export interface TrainingPlan {
  readonly compiled: Compiled;
  /** The labels, by the names of their rows. */
  readonly labels: Named<Output>;
  readonly parts: Map<string, Part>;
}

/** Ops for batches with labels and weights of one kind. */
interface Part {
  readonly metrics: Metrics;
  /** Undefined for an evaluation. */
  readonly trainOp: Operation | undefined;
  readonly weights: Output | undefined;
  readonly classTable: Output | undefined;
}

export interface StepOptions {
  readonly classTable?: Tensor | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface OpenSessionOptions {
  readonly seed?: number | undefined;
  /** The types of the inputs. */
  readonly types: InputTypes;
}

export class ModelSession implements AsyncDisposable {
  readonly graph: Graph;
  readonly inputs: Named<Output>;
  readonly predictions: readonly Output[];
  /** The weights, without the variables of the optimizer. */
  readonly weights: readonly Variable[];
  readonly #built: Built;
  readonly #network: Network;
  readonly #opened: OpenedTraining;
  readonly #initialized: Set<Variable>;
  readonly #stop: AbortController;
  readonly #copies: WeightCopies;
  readonly #files: CheckpointFiles;
  readonly #assigns = new Map<Variable, { readonly value: Output; readonly op: Operation }>();
  /** Concurrent calls must not each build the same part. */
  readonly #inTurn = serialQueue();
  #plan: TrainingPlan | undefined;
  #rateFactor: Variable | undefined;
  /** A checkpoint whose state of the optimizer is not restored yet. */
  #pending: string | undefined;

  private constructor(parts: {
    readonly network: Network;
    readonly inputs: Named<Output>;
    readonly built: Built;
    readonly weights: readonly Variable[];
    readonly opened: OpenedTraining;
    readonly stop: AbortController;
  }) {
    this.#built = parts.built;
    this.predictions = parts.built.outputs;
    this.graph = (this.predictions[0] as Output).graph;
    this.inputs = parts.inputs;
    this.weights = parts.weights;
    this.#network = parts.network;
    this.#opened = parts.opened;
    this.#stop = parts.stop;
    this.#initialized = new Set(globalVariables(this.graph));
    this.#files = new CheckpointFiles(parts.opened.runner);
    this.#copies = new WeightCopies(this.#network.builtIn(this.graph), {
      read: (variables) => this.#opened.runner.run(variables.map((variable) => variable.toOutput())),
      write: (values) => this.#write(values),
    });
  }

  static async open(network: Network, { seed, types }: OpenSessionOptions): Promise<ModelSession> {
    const graph = new Graph();
    if (seed !== undefined) graph.seed = seed;
    const stop = new AbortController();
    // Every run adds a listener.
    setMaxListeners(0, stop.signal);
    let opened: OpenedTraining | undefined;
    try {
      const { inputs, built, weights } = graph.asDefault(() => {
        const made = Object.fromEntries(
          Object.entries(types).map(([name, type]) => [name, placeholder({ ...type, name })]),
        );
        const result = network.build(made, { training: false });
        const own = globalVariables(graph);
        getOrCreateGlobalStep(graph);
        return { inputs: made, built: result, weights: own };
      });
      const log = () => {};
      opened = await openTraining({
        graph,
        isChief: true,
        coordinator: new Coordinator({ log }),
        values: () => ({}),
        signal: stop.signal,
        log,
      });
      await opened.session.ready();
      return new ModelSession({ network, inputs, built, weights, opened, stop });
    } catch (error) {
      await release({ graph, stop, opened });
      throw error;
    }
  }

  /** Adds the labels of a compiled model, unless they are there. */
  prepare(compiled: Compiled, given: Named<Tensor>): TrainingPlan {
    const earlier = this.#plan?.compiled === compiled ? this.#plan : undefined;
    const types = Object.entries(given).map(([name, one]) => {
      const { dtype, shape } = typeOf(one);
      const known = earlier?.parts.size ? earlier.labels[name]?.shape : undefined;
      // Sequences of several lengths have one plan.
      const isLonger = known?.length === shape.length;
      return {
        name,
        dtype,
        shape: isLonger ? shape.map((size, i) => (size === known[i] ? size : null)) : shape,
      };
    });
    const fits =
      earlier &&
      types.every(({ name, shape }) => formatShape(shape) === formatShape(earlier.labels[name]!.shape));
    if (fits) return earlier;
    const labels = this.graph.asDefault(() =>
      Object.fromEntries(types.map(({ name, dtype, shape }) => [name, placeholder({ dtype, shape, name })])),
    );
    this.#plan = { compiled, labels, parts: new Map() };
    return this.#plan;
  }

  /** The ops for such a batch, built at the first one. */
  #part(plan: TrainingPlan, batch: Batch, trains: boolean, table?: Tensor): Promise<Part> {
    const weights = batch.sampleWeight;
    const key = `${trains}/${weights?.rank ?? ''}/${table ? 'classes' : ''}`;
    return this.#inTurn(async () => {
      const known = plan.parts.get(key);
      if (known) return known;
      const made = this.graph.asDefault(() => this.#build(plan, weights, trains, table));
      await this.#initialize();
      plan.parts.set(key, made);
      return made;
    });
  }

  #build(
    { compiled, labels: given }: TrainingPlan,
    weighting: Tensor | undefined,
    trains: boolean,
    table?: Tensor,
  ): Part {
    const { graph } = this;
    const ys = Object.values(given);
    const weights =
      weighting &&
      placeholder({ dtype: 'float32', shape: [null, ...weighting.shape.slice(1)], name: 'sample_weight' });
    if (!trains) {
      const labels: LabelOutputs = { ys, weights };
      const metrics = metricsOf(compiled, modelParts(compiled, this.#built, labels), labels);
      return { metrics, trainOp: undefined, weights, classTable: undefined };
    }
    const classTable = table && placeholder({ dtype: 'float32', shape: table.shape, name: 'class_weight' });
    const ofClasses = classTable && classWeights(ys[0] as Output, this.predictions[0] as Output, classTable);
    const all = weights && ofClasses ? mul(weights, ofClasses) : (weights ?? ofClasses);
    const labels: LabelOutputs = { ys, weights: all };
    const build = () => this.#network.build(this.inputs, { training: true });
    const parts = trainingParts(compiled, labels, build);
    const globalStep = getOrCreateGlobalStep(graph);
    this.#rateFactor ??= newVariable(() => Tensor.of(1, { dtype: 'float32' }), {
      name: 'learning_rate_factor',
      trainable: false,
      collections: [GraphKeys.localVariables],
    });
    const rateFactor = this.#rateFactor.toOutput();
    const trainOp = compiled.optimizer.minimize(parts.loss, { globalStep, rateFactor });
    return { metrics: metricsOf(compiled, parts, labels), trainOp, weights, classTable };
  }

  /** Gives variables that were created since their initial values, or those of the checkpoint that was loaded. */
  async #initialize(): Promise<void> {
    const all = [...globalVariables(this.graph), ...localVariables(this.graph)];
    const created = all.filter((variable) => !this.#initialized.has(variable));
    await this.#opened.runner.run(created.map(({ initializer }) => initializer));
    for (const variable of created) this.#initialized.add(variable);
    if (this.#pending === undefined || !this.#rateFactor) return;
    await this.#restore(this.#pending, this.#trainingState());
    this.#pending = undefined;
  }

  /** The variables of training, other than the weights. */
  #trainingState(): readonly Variable[] {
    const own = this.#plan?.compiled.optimizer.variables(this.graph) ?? [];
    return [...own, getOrCreateGlobalStep(this.graph), ...(this.#rateFactor ? [this.#rateFactor] : [])];
  }

  async resetMetrics({ parts }: TrainingPlan): Promise<void> {
    const metrics = [...parts.values()].flatMap((part) => (part.trainOp ? Object.values(part.metrics) : []));
    await this.#opened.runner.run(metrics.flatMap(({ reset }) => (reset ? [reset] : [])));
  }

  /** One step; returns the means over all examples since the metrics were reset. */
  async trainOn(plan: TrainingPlan, batch: Batch, { classTable, signal }: StepOptions): Promise<Results> {
    const part = await this.#part(plan, batch, true, classTable);
    const { metrics, trainOp } = part;
    const updates = Object.values(metrics).map(({ updateOp }) => updateOp as Output);
    const feeds = this.#feeds(batch, plan, part);
    if (part.classTable && classTable) feeds.push([part.classTable, classTable]);
    const [means] = await this.#copies.change(() =>
      this.#opened.session.run([updates, trainOp as Operation], { feeds, ...(signal && { signal }) }),
    );
    return Object.fromEntries(Object.keys(metrics).map((name, i) => [name, means[i]!.number()]));
  }

  async evaluate(plan: TrainingPlan, batches: AsyncIterator<Batch>, signal?: AbortSignal): Promise<Results> {
    await this.#copies.refresh();
    let next = await batches.next();
    if (next.done) throw invalid('The input of the evaluation has no batch');
    const part = await this.#part(plan, next.value, false);
    const feeds = async (batch: number) => {
      if (batch > 0) next = await batches.next();
      return next.done ? undefined : this.#feeds(next.value, plan, part);
    };
    return evaluate(this.#opened.runner, { metrics: part.metrics, feeds }, signal ? { signal } : {});
  }

  async predict(batch: Batch, signal?: AbortSignal): Promise<readonly Tensor[]> {
    await this.#copies.refresh();
    return this.#opened.runner.run(this.predictions, {
      feeds: this.#feeds(batch),
      ...(signal && { signal }),
    });
  }

  #feeds(batch: Batch, plan?: TrainingPlan, part?: Part): [Output, Tensor][] {
    return Object.entries(batch).map(([name, tensor]): [Output, Tensor] => {
      const target = name === 'sampleWeight' ? part?.weights : (plan?.labels[name] ?? this.inputs[name]);
      if (!target) throw invalid(`The model has no input '${name}', which only some of the batches have`);
      return [target, tensor];
    });
  }

  /** What multiplies the learning rate. */
  async rateFactor(): Promise<number> {
    if (!this.#rateFactor) return 1;
    return (await this.#opened.runner.run(this.#rateFactor.toOutput())).number();
  }

  async setRateFactor(value: number): Promise<void> {
    if (!this.#rateFactor) throw invalid('The learning rate can change once training has begun');
    await this.#write([[this.#rateFactor, Tensor.of(value, { dtype: 'float32' })]]);
  }

  async readWeights(): Promise<Named<Tensor>> {
    await this.#copies.refresh();
    const values = await this.#opened.runner.run(this.weights.map((variable) => variable.toOutput()));
    return Object.fromEntries(this.weights.map(({ name }, i) => [name, values[i] as Tensor]));
  }

  writeWeights(values: readonly (readonly [Variable, Tensor])[]): Promise<void> {
    return this.#copies.change(() => this.#write(values));
  }

  async #write(values: readonly (readonly [Variable, Tensor])[]): Promise<void> {
    const assigns = values.map(([variable, tensor]) => ({ ...this.#assign(variable), tensor }));
    await this.#opened.runner.run(
      assigns.map(({ op }) => op),
      { feeds: assigns.map(({ value, tensor }) => [value, tensor] as const) },
    );
  }

  #assign(variable: Variable) {
    const known = this.#assigns.get(variable);
    if (known) return known;
    const made = this.graph.asDefault(() => {
      const { dtype, shape } = variable;
      const value = placeholder({ dtype, shape });
      return { value, op: variable.assign(value) as Operation };
    });
    this.#assigns.set(variable, made);
    return made;
  }

  /** Writes a checkpoint of TensorFlow: the weights, and with `training` the state of the optimizer. */
  async saveCheckpoint(prefix: string, training: boolean): Promise<void> {
    await this.#copies.refresh();
    await this.#files.save(prefix, [...this.weights, ...(training ? this.#trainingState() : [])]);
  }

  /** Restores the weights, and with `training` the state of the optimizer that the checkpoint contains. */
  async restoreCheckpoint(prefix: string, training: boolean): Promise<void> {
    const names = await this.#files.names(prefix);
    const missing = this.weights.filter(({ name }) => !names.has(name));
    if (missing.length > 0)
      throw invalid(
        `The checkpoint ${prefix} has no value for ${missing.map(({ name }) => name).join(', ')}`,
        {
          hint: `It has ${[...names].join(', ')}.`,
        },
      );
    await this.#copies.change(() => this.#restore(prefix, this.weights));
    if (!training) return;
    const state = this.#trainingState().filter((one) => this.#initialized.has(one));
    await this.#restore(prefix, state);
    this.#pending = this.#rateFactor ? undefined : prefix;
  }

  /** Sets those of the variables that the checkpoint contains. */
  async #restore(prefix: string, variables: readonly Variable[]): Promise<void> {
    const names = await this.#files.names(prefix);
    const known = variables.filter(({ name }) => names.has(name));
    const values = await this.#files.read(prefix, known);
    for (const [i, { name, shape }] of known.entries()) {
      const found = values[i] as Tensor;
      if (!isCompatible(found.shape, shape))
        throw invalid(
          `'${name}' has shape ${formatShape(found.shape)} in ${prefix}; in the model it is ${formatShape(shape)}`,
        );
    }
    await this.#write(known.map((variable, i) => [variable, values[i] as Tensor] as const));
  }

  async export(directory: string): Promise<string> {
    await this.#copies.refresh();
    const { inputs, predictions } = this;
    const outputs = Object.fromEntries(
      this.#network.outputNames.map((name, i) => [name, predictions[i] as Output]),
    );
    return simpleSave(this.#opened.runner, directory, { inputs, outputs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#copies.release();
    } finally {
      await release({ graph: this.graph, stop: this.#stop, opened: this.#opened });
    }
  }
}

/** Frees a session, and the graph after the runs on it have ended. */
async function release({
  graph,
  stop,
  opened,
}: {
  readonly graph: Graph;
  readonly stop: AbortController;
  readonly opened: OpenedTraining | undefined;
}): Promise<void> {
  stop.abort();
  try {
    await opened?.[Symbol.asyncDispose]();
  } finally {
    graph.dispose();
  }
}

/** The types of a model's inputs: those that are declared, others from examples. */
export function inputTypes({ inputs }: Network, examples: Named<Tensor> = {}): InputTypes {
  const entries = inputs.map(({ name, type }) => {
    const example = examples[name];
    if (type) return [name, type] as const;
    if (example) return [name, typeOf(example)] as const;
    throw invalid('The model does not know the shape of its input yet', {
      hint: 'Begin the layers with tf.keras.Input({ shape: [784] }), or call fit first.',
    });
  });
  return Object.fromEntries(entries);
}

/** The type of a placeholder for rows of a tensor. */
const typeOf = ({ dtype, shape }: Tensor) => ({ dtype, shape: [null, ...shape.slice(1)] });
