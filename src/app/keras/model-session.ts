/** A model in this process: its graph, and a session that holds the values of its variables. */
import { setMaxListeners } from 'node:events';
import { serialQueue } from '../../base/async/serial-queue.js';
import { invalid } from '../../base/errors/errors.js';
import { Graph } from '../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../tensorflow/graph/operation.js';
import { placeholder } from '../../tensorflow/ops/creation.js';
import type { Feeds } from '../../tensorflow/session/feeds.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import { getOrCreateGlobalStep } from '../../tensorflow/variables/global-step.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import { globalVariables, localVariables } from '../../tensorflow/variables/variable-scope.js';
import { simpleSave } from '../../training/saved-model/writing/simple-save.js';
import { type OpenedTraining, openTraining } from '../../training/train/core/open-training.js';
import { evaluate, type Results, type StreamingMetric } from '../../training/train/evaluation/evaluate.js';
import { Coordinator } from '../../training/train/recovery/coordinator.js';
import type { Compiled } from './compile.js';
import type { Rows } from './data.js';
import { WeightCopies } from './layer-weights.js';
import { metricsOf, modelParts, trainingParts } from './model-graph.js';
import type { Network } from './network.js';
import type { InputTypes } from './summary.js';

type Named<T> = Readonly<Record<string, T>>;

/** The part of the graph that needs labels. */
export interface TrainingParts {
  readonly compiled: Compiled;
  /** The labels, by the names of their rows. */
  readonly labels: Named<Output>;
  readonly trainOp: Operation;
  readonly metrics: Named<StreamingMetric>;
  /** The same on predictions that are not those of training. */
  readonly evaluated: Named<StreamingMetric>;
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
  readonly #network: Network;
  readonly #opened: OpenedTraining;
  readonly #initialized: Set<Variable>;
  readonly #stop: AbortController;
  readonly #copies: WeightCopies;
  readonly #assigns = new Map<Variable, { readonly value: Output; readonly op: Operation }>();
  /** Concurrent calls must not each build the training part. */
  readonly #inTurn = serialQueue();
  #training: TrainingParts | undefined;

  private constructor(parts: {
    readonly network: Network;
    readonly inputs: Named<Output>;
    readonly predictions: readonly Output[];
    readonly weights: readonly Variable[];
    readonly opened: OpenedTraining;
    readonly stop: AbortController;
  }) {
    this.graph = (parts.predictions[0] as Output).graph;
    this.inputs = parts.inputs;
    this.predictions = parts.predictions;
    this.weights = parts.weights;
    this.#network = parts.network;
    this.#opened = parts.opened;
    this.#stop = parts.stop;
    this.#initialized = new Set(globalVariables(this.graph));
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
      const { inputs, predictions, weights } = graph.asDefault(() => {
        const made = Object.fromEntries(
          Object.entries(types).map(([name, type]) => [name, placeholder({ ...type, name })]),
        );
        const result = network.build(made, { training: false });
        const own = globalVariables(graph);
        getOrCreateGlobalStep(graph);
        return { inputs: made, predictions: result, weights: own };
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
      return new ModelSession({ network, inputs, predictions, weights, opened, stop });
    } catch (error) {
      await release({ graph, stop, opened });
      throw error;
    }
  }

  /** Adds the loss, the metrics and the optimizer, unless they are there. */
  prepare(compiled: Compiled, labels: Named<Tensor>): Promise<TrainingParts> {
    return this.#inTurn(() => this.#prepare(compiled, labels));
  }

  async #prepare(compiled: Compiled, given: Named<Tensor>): Promise<TrainingParts> {
    if (this.#training?.compiled === compiled) return this.#training;
    const { graph, inputs, predictions } = this;
    const training = graph.asDefault((): TrainingParts => {
      const labels = Object.fromEntries(
        Object.entries(given).map(([name, one]) => [name, placeholder({ ...typeOf(one), name })]),
      );
      const ys = Object.values(labels);
      const build = () => this.#network.build(inputs, { training: true });
      const parts = trainingParts(compiled, ys, build);
      const globalStep = getOrCreateGlobalStep(graph);
      const trainOp = compiled.optimizer.minimize(parts.loss, { globalStep });
      const evaluated = metricsOf(compiled, modelParts(compiled, predictions, ys), ys);
      return { compiled, labels, trainOp, metrics: metricsOf(compiled, parts, ys), evaluated };
    });
    const created = [...globalVariables(graph), ...localVariables(graph)].filter(
      (variable) => !this.#initialized.has(variable),
    );
    await this.#opened.runner.run(created.map(({ initializer }) => initializer));
    for (const variable of created) this.#initialized.add(variable);
    this.#training = training;
    return training;
  }

  async resetMetrics({ metrics }: TrainingParts): Promise<void> {
    const resets = Object.values(metrics).flatMap(({ reset }) => (reset ? [reset] : []));
    await this.#opened.runner.run(resets);
  }

  /** One step; returns the means over all examples since the metrics were reset. */
  async trainOn(training: TrainingParts, batch: Named<Tensor>, signal?: AbortSignal): Promise<Results> {
    const { metrics, trainOp } = training;
    const updates = Object.values(metrics).map(({ updateOp }) => updateOp as Output);
    const [means] = await this.#copies.change(() =>
      this.#opened.session.run([updates, trainOp], {
        feeds: this.#feeds(batch, training),
        ...(signal && { signal }),
      }),
    );
    return Object.fromEntries(Object.keys(metrics).map((name, i) => [name, means[i]!.number()]));
  }

  async evaluate(
    training: TrainingParts,
    rows: Rows,
    batchSize: number,
    signal?: AbortSignal,
  ): Promise<Results> {
    await this.#copies.refresh();
    const feeds = (batch: number) => {
      const from = batch * batchSize;
      return this.#feeds(rows.range(from, Math.min(from + batchSize, rows.count)), training);
    };
    const evaluation = { metrics: training.evaluated, batches: rows.batchCount(batchSize), feeds };
    return evaluate(this.#opened.runner, evaluation, signal ? { signal } : {});
  }

  async predict(batch: Named<Tensor>, signal?: AbortSignal): Promise<readonly Tensor[]> {
    await this.#copies.refresh();
    return this.#opened.runner.run(this.predictions, {
      feeds: this.#feeds(batch),
      ...(signal && { signal }),
    });
  }

  #feeds(batch: Named<Tensor>, training?: TrainingParts): Feeds {
    return Object.entries(batch).map(([name, tensor]) => {
      const target = training?.labels[name] ?? this.inputs[name];
      if (!target) throw invalid(`The model has no input '${name}'`);
      return [target, tensor] as const;
    });
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

  async save(directory: string): Promise<string> {
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
