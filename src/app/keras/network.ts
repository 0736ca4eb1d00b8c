/** The layers of a model in the order in which they are built, with their names. */
import { invalid } from '../../base/errors/errors.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { globalVariables } from '../../tensorflow/variables/variable-scope.js';
import { type InputSpec, type Layer, SymbolicTensor } from './layer.js';
import type { LayerVariables } from './layer-weights.js';

/** One application of a layer. */
export interface NetworkNode {
  readonly layer: Layer;
  readonly name: string;
  readonly sources: readonly SymbolicTensor[];
  readonly tensor: SymbolicTensor;
}

export interface NetworkOptions {
  readonly training: boolean;
  /** Called with the result of each layer; default: none. */
  readonly onLayer?: (node: NetworkNode, output: Output) => void;
}

export class Network {
  readonly inputs: readonly InputSpec[];
  readonly nodes: readonly NetworkNode[];
  /** The names of the outputs: of the layers that make them, or `prediction` if there is one output. */
  readonly outputNames: readonly string[];
  readonly #outputs: readonly SymbolicTensor[];
  readonly #specs: ReadonlyMap<SymbolicTensor, InputSpec>;
  /** The layers that each graph contains, with their variables. */
  readonly #built = new WeakMap<Graph, Map<Layer, LayerVariables>>();

  constructor(inputs: readonly SymbolicTensor[], outputs: readonly SymbolicTensor[]) {
    checkTensors('inputs', inputs);
    checkTensors('outputs', outputs);
    this.#outputs = outputs;
    this.#specs = new Map(inputs.map((tensor) => [tensor, specOf(tensor)]));
    this.inputs = [...this.#specs.values()];
    const names = this.inputs.map(({ name }) => name);
    if (new Set(names).size < names.length || names.includes('y'))
      throw invalid(
        `The inputs of a model need different names, other than y; they are ${names.join(', ')}`,
        {
          hint: "Name them: tf.keras.Input({ shape: [3], name: 'image' }).",
        },
      );
    this.nodes = nameNodes(orderOf(outputs, this.#specs));
    this.outputNames = this.#nameOutputs();
    const used = new Set(this.nodes.flatMap(({ sources }) => sources));
    for (const [tensor, { name }] of this.#specs)
      if (!used.has(tensor)) throw invalid(`The output of the model does not depend on its input '${name}'`);
    for (const layer of new Set(this.nodes.map((node) => node.layer))) layer.weights.addModel();
  }

  /** Adds the ops to the graph of the inputs; variables that exist already are shared. */
  build(inputs: Readonly<Record<string, Output>>, { training, onLayer }: NetworkOptions): readonly Output[] {
    const values = new Map<SymbolicTensor, Output>();
    for (const [tensor, { name }] of this.#specs) {
      const input = inputs[name];
      if (!input)
        throw invalid(
          `The model has no value for its input '${name}'; it got ${Object.keys(inputs).join(', ')}`,
        );
      values.set(tensor, input);
    }
    for (const node of this.nodes) {
      const sources = node.sources.map((source) => values.get(source) as Output);
      const output = this.#buildLayer(node, sources, training);
      values.set(node.tensor, output);
      onLayer?.(node, output);
    }
    return this.#outputs.map((output) => values.get(output) as Output);
  }

  #nameOutputs(): readonly string[] {
    if (this.#outputs.length === 1) return ['prediction'];
    const names: string[] = [];
    for (const output of this.#outputs) {
      const own = this.nodes.find(({ tensor }) => tensor === output)?.name ?? this.#specs.get(output)?.name;
      let name = own as string;
      for (let i = 1; names.includes(name); i++) name = `${own}_${i}`;
      names.push(name);
    }
    return names;
  }

  /** The layers that were built in a graph. */
  builtIn(graph: Graph): readonly LayerVariables[] {
    return [...(this.#built.get(graph)?.values() ?? [])];
  }

  #buildLayer({ layer, name }: NetworkNode, sources: readonly Output[], training: boolean): Output {
    const { graph } = sources[0] as Output;
    const built = this.#built.get(graph) ?? new Map<Layer, LayerVariables>();
    this.#built.set(graph, built);
    const earlier = globalVariables(graph).length;
    const output = layer.build(sources, { name, training });
    const created = globalVariables(graph).slice(earlier);
    if (built.has(layer) && created.length > 0)
      throw invalid(
        `Layer ${name} does not share its variables: built again, it created ${created.map((one) => one.name).join(', ')}`,
        {
          hint:
            'The model would train these and evaluate others. Create variables with tf.variable or tf.layers, ' +
            "for training and evaluation alike, in a variable scope with reuse: 'auto' (the default).",
        },
      );
    if (!built.has(layer)) built.set(layer, { name, weights: layer.weights, variables: created });
    return output;
  }
}

function specOf({ parts }: SymbolicTensor): InputSpec {
  if ('input' in parts) return parts.input;
  throw invalid('The inputs of a model are made with tf.keras.Input');
}

function checkTensors(option: string, tensors: readonly unknown[]): void {
  if (tensors.length > 0 && tensors.every((tensor) => tensor instanceof SymbolicTensor)) return;
  throw invalid(
    `${option} of the model must be what tf.keras.Input or a layer's apply returns, or a list of them`,
    {
      hint: 'const x = tf.keras.Input({ shape: [3] }); new tf.keras.Model({ inputs: x, outputs: layer.apply(x) })',
    },
  );
}

/** The applications of layers that the outputs need, sources first. */
function orderOf(
  outputs: readonly SymbolicTensor[],
  inputs: ReadonlyMap<SymbolicTensor, InputSpec>,
): readonly SymbolicTensor[] {
  const order: SymbolicTensor[] = [];
  const seen = new Set<SymbolicTensor>(inputs.keys());
  // Without recursion: a model may have thousands of layers.
  const pending: { readonly tensor: SymbolicTensor; readonly isReady: boolean }[] = [...outputs]
    .reverse()
    .map((tensor) => ({ tensor, isReady: false }));
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { tensor, isReady } = next;
    if (isReady) order.push(tensor);
    if (isReady || seen.has(tensor)) continue;
    seen.add(tensor);
    const { parts } = tensor;
    if ('input' in parts)
      throw invalid(`The input '${parts.input.name}' is not among the inputs of the model`);
    pending.push({ tensor, isReady: true });
    for (const source of [...parts.sources].reverse()) pending.push({ tensor: source, isReady: false });
  }
  if (order.length === 0) throw invalid('The model has no layers');
  return order;
}

/** Names as in Keras: `dense`, `dense_1`; a layer that is applied several times has one name. */
function nameNodes(order: readonly SymbolicTensor[]): readonly NetworkNode[] {
  const names = new Map<Layer, string>();
  const taken = new Set<string>();
  const layers = order.flatMap(({ parts }) => ('layer' in parts ? [parts.layer] : []));
  for (const layer of new Set(layers)) {
    if (layer.name === undefined) continue;
    if (taken.has(layer.name)) throw invalid(`Two layers of the model are named '${layer.name}'`);
    taken.add(layer.name);
    names.set(layer, layer.name);
  }
  const nameOf = (layer: Layer): string => {
    const known = names.get(layer);
    if (known !== undefined) return known;
    let name = layer.kind;
    for (let i = 1; taken.has(name); i++) name = `${layer.kind}_${i}`;
    taken.add(name);
    names.set(layer, name);
    return name;
  };
  return order.flatMap((tensor) => {
    const { parts } = tensor;
    if (!('layer' in parts)) return [];
    return [{ layer: parts.layer, name: nameOf(parts.layer), sources: parts.sources, tensor }];
  });
}
