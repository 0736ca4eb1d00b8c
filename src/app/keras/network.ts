/** The layers of a model in the order in which they are built, with their names. */
import { invalid } from '../../base/errors/errors.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import {
  type Application,
  type Built,
  type InputSpec,
  type Layer,
  type LayerCall,
  type Mask,
  SymbolicTensor,
} from './layer.js';
import { LayerBuilder } from './layer-builder.js';
import type { LayerVariables } from './layer-weights.js';

/** One application of a layer. */
export interface NetworkNode {
  readonly layer: Layer;
  readonly name: string;
  readonly application: Application;
}

export interface NetworkOptions {
  readonly training: boolean;
  /** Called with what each layer has built; default: none. */
  readonly onLayer?: (node: NetworkNode, built: Built) => void;
}

/** Builds a layer in the graph of its inputs. */
export type BuildLayer = (node: NetworkNode, inputs: readonly Output[], masks: readonly Mask[]) => Built;

export class Network {
  readonly inputs: readonly InputSpec[];
  readonly inputTensors: readonly SymbolicTensor[];
  readonly outputTensors: readonly SymbolicTensor[];
  readonly nodes: readonly NetworkNode[];
  /** The names of the outputs: of the layers that make them, or `prediction` if there is one output. */
  readonly outputNames: readonly string[];
  readonly #specs: ReadonlyMap<SymbolicTensor, InputSpec>;
  readonly #builder = new LayerBuilder();

  constructor(inputs: readonly SymbolicTensor[], outputs: readonly SymbolicTensor[]) {
    checkTensors('inputs', inputs);
    checkTensors('outputs', outputs);
    this.inputTensors = inputs;
    this.outputTensors = outputs;
    this.#specs = new Map(inputs.map((tensor) => [tensor, specOf(tensor)]));
    this.inputs = [...this.#specs.values()];
    const names = this.inputs.map(({ name }) => name);
    const reserved = RESERVED.find((name) => names.includes(name));
    if (new Set(names).size < names.length || reserved !== undefined)
      throw invalid(
        `The inputs of a model need different names, other than ${RESERVED.join(' and ')}; they are ${names.join(', ')}`,
        {
          hint: "Name them: tf.keras.Input({ shape: [3], name: 'image' }).",
        },
      );
    this.nodes = nameNodes(orderOf(outputs, this.#specs));
    this.outputNames = this.#nameOutputs();
    const used = new Set(this.nodes.flatMap(({ application }) => application.sources));
    for (const [tensor, { name }] of this.#specs)
      if (!used.has(tensor)) throw invalid(`The output of the model does not depend on its input '${name}'`);
    for (const layer of new Set(withInner(this.layers))) layer.weights.addModel();
  }

  /** The layers, each once, in the order in which they are built. */
  get layers(): readonly Layer[] {
    return [...new Set(this.nodes.map(({ layer }) => layer))];
  }

  /** Adds the ops to the graph of the inputs; variables that exist already are shared. */
  build(inputs: Readonly<Record<string, Output>>, { training, onLayer }: NetworkOptions): Built {
    const given = this.inputs.map(({ name }) => {
      // The only input of a model may be called x, whatever its name is.
      const input = inputs[name] ?? (this.inputs.length === 1 ? inputs.x : undefined);
      if (input) return input;
      throw invalid(
        `The model has no value for its input '${name}'; it got ${Object.keys(inputs).join(', ')}`,
      );
    });
    return this.#connect(given, [], (node, sources, masks) => {
      const built = this.#builder.build(node.layer, sources, { name: node.name, training, masks });
      onLayer?.(node, built);
      return built;
    });
  }

  /** Builds the layers as parts of a layer of another model. */
  buildWithin(inputs: readonly Output[], call: LayerCall): Built {
    return this.#connect(inputs, call.masks, ({ layer, name }, sources, masks) =>
      call.build(layer, sources, masks, name),
    );
  }

  #connect(inputs: readonly Output[], inputMasks: readonly Mask[], build: BuildLayer): Built {
    const results = new Map<Application, Built>();
    const given = new Map([...this.#specs.keys()].map((tensor, i) => [tensor, i] as const));
    const resultOf = (tensor: SymbolicTensor): { readonly output: Output; readonly mask: Mask } => {
      const { parts } = tensor;
      if ('input' in parts) {
        const at = given.get(tensor) as number;
        return { output: inputs[at] as Output, mask: inputMasks[at] };
      }
      const built = results.get(parts.application) as Built;
      return { output: built.outputs[parts.index] as Output, mask: built.masks[parts.index] };
    };
    for (const node of this.nodes) {
      const sources = node.application.sources.map(resultOf);
      const outputs = sources.map(({ output }) => output);
      const masks = sources.map(({ mask }) => mask);
      results.set(node.application, build(node, outputs, masks));
    }
    const ended = this.outputTensors.map(resultOf);
    return { outputs: ended.map(({ output }) => output), masks: ended.map(({ mask }) => mask) };
  }

  #nameOutputs(): readonly string[] {
    if (this.outputTensors.length === 1) return ['prediction'];
    const names: string[] = [];
    for (const { parts } of this.outputTensors) {
      const own =
        'input' in parts
          ? parts.input.name
          : (this.nodes.find(({ application }) => application === parts.application)?.name as string);
      let name = own;
      for (let i = 1; names.includes(name); i++) name = `${own}_${i}`;
      names.push(name);
    }
    return names;
  }

  /** The layers that were built in a graph. */
  builtIn(graph: Graph): readonly LayerVariables[] {
    return this.#builder.builtIn(graph);
  }
}

/** What the labels and the weights of examples are called. */
const RESERVED = ['y', 'sampleWeight'];

const withInner = (layers: readonly Layer[]): readonly Layer[] =>
  layers.flatMap((layer) => [layer, ...withInner(layer.inner)]);

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
): readonly Application[] {
  const order: Application[] = [];
  const seen = new Set<Application>();
  // Without recursion: a model may have thousands of layers.
  const pending: { readonly tensor: SymbolicTensor; readonly isReady: boolean }[] = [...outputs]
    .reverse()
    .map((tensor) => ({ tensor, isReady: false }));
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { tensor, isReady } = next;
    if (inputs.has(tensor)) continue;
    const { parts } = tensor;
    if ('input' in parts)
      throw invalid(`The input '${parts.input.name}' is not among the inputs of the model`);
    const { application } = parts;
    if (isReady) order.push(application);
    if (isReady || seen.has(application)) continue;
    seen.add(application);
    pending.push({ tensor, isReady: true });
    for (const source of [...application.sources].reverse()) pending.push({ tensor: source, isReady: false });
  }
  if (order.length === 0) throw invalid('The model has no layers');
  return order;
}

/** Names as in Keras: `dense`, `dense_1`; a layer that is applied several times has one name. */
function nameNodes(order: readonly Application[]): readonly NetworkNode[] {
  const names = new Map<Layer, string>();
  const taken = new Set<string>();
  for (const layer of new Set(order.map((application) => application.layer))) {
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
  return order.map((application) => ({
    layer: application.layer,
    name: nameOf(application.layer),
    application,
  }));
}
