/** The architecture of a model as the JSON of Keras, which `keras.models.model_from_json` reads. */
import { ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { activationName } from '../../../tensorflow/layers/activations.js';
import { penaltyOf } from '../../../tensorflow/layers/regularizers.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import { type Application, Layer, type SymbolicTensor } from '../layer.js';
import { initializerClass } from '../layers/named-values.js';
import { Network } from '../network.js';
import type { InputTypes } from '../summary.js';
import { kerasOption } from './registry.js';

type Json = Readonly<Record<string, unknown>>;
type TensorType = Pick<Output, 'dtype' | 'shape'>;

/** Changes no result. */
const ONLY_HERE = ['unique', 'fused', 'movingVariance'];

export const modelJson = (network: Network, types: InputTypes, name: string): Json => ({
  module: 'keras.src.models.functional',
  class_name: 'Functional',
  config: networkConfig(network, types, name),
  registered_name: 'Functional',
});

function networkConfig(network: Network, types: InputTypes, name: string): Json {
  const results = typesOf(network, types);
  const numbers = new Map<Application, readonly [string, number]>();
  const layers = new Map<Layer, { readonly json: Json; readonly nodes: Json[] }>();
  const typeOf = ({ parts }: SymbolicTensor): TensorType =>
    'input' in parts
      ? (types[parts.input.name] as TensorType)
      : ((results.get(parts.application) as readonly TensorType[])[parts.index] as TensorType);
  const historyOf = ({ parts }: SymbolicTensor): readonly [string, number, number] => {
    if ('input' in parts) return [parts.input.name, 0, 0];
    const [layer, node] = numbers.get(parts.application) as readonly [string, number];
    return [layer, node, parts.index];
  };
  const tensor = (one: SymbolicTensor): Json => {
    const { dtype, shape } = typeOf(one);
    return { class_name: '__keras_tensor__', config: { shape, dtype, keras_history: historyOf(one) } };
  };
  for (const { layer, name: own, application } of network.nodes) {
    const inputs = application.sources.map(typeOf);
    const known = layers.get(layer) ?? { json: layerJson(layer, own, inputs), nodes: [] };
    layers.set(layer, known);
    numbers.set(application, [own, known.nodes.length]);
    known.nodes.push(nodeOf(layer, application.sources.map(tensor)));
  }
  const inputs = network.inputs.map((input): Json => {
    const { dtype, shape } = types[input.name] as TensorType;
    const config = { batch_shape: shape, dtype, name: input.name };
    return {
      module: 'keras.layers',
      class_name: 'InputLayer',
      config,
      registered_name: null,
      name: input.name,
      inbound_nodes: [],
    }; // prettier-ignore
  });
  const all = [...layers.values()].map(({ json, nodes }) => ({
    ...json,
    name: (json.config as Json).name,
    inbound_nodes: nodes,
  }));
  const ends = (tensors: readonly SymbolicTensor[]) => {
    const all = tensors.map(historyOf);
    return all.length === 1 ? all[0] : all;
  };
  return {
    name,
    trainable: true,
    layers: [...inputs, ...all],
    input_layers: ends(network.inputTensors),
    output_layers: ends(network.outputTensors),
  };
}

/** How Keras calls the layer. */
function nodeOf(layer: Layer, inputs: readonly Json[]): Json {
  const { arguments: how = 'each', whenApplied = [], config = {} } = layer.saved ?? {};
  const kwargs = Object.fromEntries(
    whenApplied.flatMap((option) => (option in config ? [[kerasOption(option), config[option]]] : [])),
  );
  if (how === 'list') return { args: [inputs], kwargs };
  if (how === 'each') return { args: inputs, kwargs };
  const [x, ...state] = inputs;
  return { args: [x], kwargs: { ...kwargs, ...(state.length > 0 && { initial_state: state }) } };
}

function layerJson(layer: Layer, name: string, inputs: readonly TensorType[]): Json {
  const { saved } = layer;
  if (!saved) {
    if (layer.constructor === Layer)
      throw new ShoalError(
        'SHOAL_UNSUPPORTED',
        `Layer ${name} (${layer.kind}) is a function, which JSON cannot contain`,
        {
          hint: 'Write it as a subclass of tf.keras.Layer with getConfig.',
        },
      );
    const config = { ...layer.getConfig(), name };
    return {
      module: null,
      class_name: layer.constructor.name,
      config,
      registered_name: `Custom>${layer.constructor.name}`,
    };
  }
  const { network } = saved.config;
  if (network instanceof Network) {
    const types = Object.fromEntries(
      network.inputs.map((input, i) => [input.name, input.type ?? (inputs[i] as TensorType)]),
    ) as InputTypes;
    return modelJson(network, types, name) as Json;
  }
  const options = Object.entries(saved.config).filter(
    ([option]) => !ONLY_HERE.includes(option) && !saved.whenApplied?.includes(option),
  );
  const config = Object.fromEntries(
    options.flatMap(([option, value]) => {
      const json = written(name, option, value, inputs);
      return json === undefined ? [] : [[kerasOption(option), json]];
    }),
  );
  return {
    module: 'keras.layers',
    class_name: saved.className,
    config: { name, ...config },
    registered_name: null,
  };
}

/** An option in Keras' form; undefined: Keras' default. */
function written(layer: string, option: string, value: unknown, inputs: readonly TensorType[]): unknown {
  if (option === 'maxNorm')
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `Layer ${layer}: Keras has no option maxNorm, so JSON cannot contain it`,
    );
  if (value instanceof Layer) {
    const inner =
      value.kind === 'functional' ? [{ ...inputs[0], shape: stepOf(inputs[0]) } as TensorType] : inputs;
    return layerJson(value, value.name ?? value.kind, inner);
  }
  if (/activation$/i.test(option)) {
    const name = activationName(value as never);
    if (name !== undefined) return kerasOption(name);
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `Layer ${layer}: JSON cannot contain the function that is its ${option}`,
      {
        hint: "Give the activation by name, for example 'relu', or as a layer of its own.",
      },
    );
  }
  if (option.endsWith('nitializer')) {
    // Values of weights are not part of the architecture.
    const made = initializerClass(value);
    return (
      made && {
        module: 'keras.initializers',
        class_name: pascal(made.className),
        config: snaked(made.config),
        registered_name: null,
      }
    ); // prettier-ignore
  }
  if (option.endsWith('egularizer')) {
    const penalty = typeof value === 'function' ? penaltyOf(value as never) : value;
    if (typeof penalty === 'string') return penalty.replace('l1l2', 'l1_l2');
    const made = penalty as { readonly className: string; readonly config: Json } | undefined;
    if (made)
      return {
        module: 'keras.regularizers',
        class_name: made.className.toUpperCase(),
        config: made.config,
        registered_name: null,
      }; // prettier-ignore
    throw new ShoalError(
      'SHOAL_UNSUPPORTED',
      `Layer ${layer}: JSON cannot contain the function that is its ${option}`,
      {
        hint: 'Use tf.regularizers.l1, l2 or l1l2.',
      },
    );
  }
  return value;
}

/** Of [batch, steps, …]: [batch, …]. */
const stepOf = (type: TensorType | undefined) =>
  type?.shape ? [type.shape[0] as number | null, ...type.shape.slice(2)] : null;

const pascal = (name: string): string =>
  name.replace(/(^|_)([a-z])/g, (_, __, letter: string) => letter.toUpperCase());
const snaked = (config: Json): Json =>
  Object.fromEntries(Object.entries(config).map(([name, value]) => [kerasOption(name), value]));

/** The types of what each application returns. */
function typesOf(network: Network, types: InputTypes): ReadonlyMap<Application, readonly TensorType[]> {
  using graph = new Graph();
  const found = new Map<Application, readonly TensorType[]>();
  graph.asDefault(() => {
    const inputs = Object.fromEntries(
      Object.entries(types).map(([name, type]) => [name, placeholder({ ...type, name })]),
    );
    network.build(inputs, {
      training: false,
      onLayer: ({ application }, { outputs }) =>
        void found.set(
          application,
          outputs.map(({ dtype, shape }) => ({ dtype, shape })),
        ),
    });
  });
  return found;
}
