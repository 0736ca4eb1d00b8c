/** Models from the JSON of Keras, as `model.toJson()` and Python's `model.to_json()` write it. */
import { invalid, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Input, type Layer, SymbolicTensor } from '../layer.js';
import { Model, type ModelOptions, Sequential } from '../model.js';
import { lookUp } from '../names.js';
import { LAYER_CLASSES, NEUTRAL, ownOption } from './registry.js';

type Json = Readonly<Record<string, unknown>>;

/** A subclass of `Layer`, whose constructor takes what `getConfig` returns. */
export type LayerConstructor = new (config: never) => Layer;

export interface FromJsonOptions extends ModelOptions {
  /** The subclasses of `Layer` that the model contains, by name. Default: none. */
  readonly layers?: Readonly<Record<string, LayerConstructor>>;
}

export function modelFromJson(
  json: string | object,
  { layers = {}, ...options }: FromJsonOptions = {},
): Model<SymbolicTensor | readonly SymbolicTensor[]> {
  return modelOf(parsed(json), layers, options);
}

function parsed(json: string | object): Json {
  if (typeof json !== 'string') return json as Json;
  try {
    return JSON.parse(json) as Json;
  } catch (cause) {
    throw new ShoalError('SHOAL_CORRUPT', `The architecture of the model is not JSON: ${messageOf(cause)}`, {
      cause,
    });
  }
}

type Classes = NonNullable<FromJsonOptions['layers']>;

function modelOf(
  json: Json,
  classes: Classes,
  options: ModelOptions,
): Model<SymbolicTensor | readonly SymbolicTensor[]> {
  const config = json.config as Json | undefined;
  if (!config || !Array.isArray(config.layers))
    throw new ShoalError(
      'SHOAL_CORRUPT',
      "This is not the JSON of a model: it has no 'config' with 'layers'",
    );
  if (json.class_name === 'Sequential') {
    const [first, ...others] = config.layers as readonly Json[];
    const rest = first?.class_name === 'InputLayer' ? others : config.layers;
    const made = (rest as readonly Json[]).map((one) => layerOf(one, classes));
    return new Sequential(
      first?.class_name === 'InputLayer' ? [inputOf(first), ...made] : made,
      options,
    ) as never;
  }
  if (json.class_name !== 'Functional' && json.class_name !== 'Model')
    throw unsupported(`A model of the class ${json.class_name} cannot be read from JSON`);
  return functional(config, classes, options);
}

/** A name that Keras gives inputs that have none. */
const inputOf = (json: Json): SymbolicTensor => {
  const config = json.config as Json;
  const shape = (config.batch_shape ?? config.batch_input_shape) as readonly (number | null)[];
  const { name, dtype } = config as { readonly name: string; readonly dtype?: DType };
  const isUnnamed = /^input_layer(_\d+)?$/.test(name);
  return Input({ shape: shape.slice(1), dtype: dtype ?? 'float32', ...(!isUnnamed && { name }) });
};

function functional(config: Json, classes: Classes, options: ModelOptions) {
  const results = new Map<string, readonly SymbolicTensor[]>();
  const pending: {
    readonly layer: Layer;
    readonly name: string;
    readonly node: Json;
    readonly at: number;
  }[] = [];
  const key = (name: unknown, node: unknown) => `${name}/${node}`;
  const all = config.layers as readonly Json[];
  const inputs = all.filter(({ class_name }) => class_name === 'InputLayer');
  for (const json of inputs) {
    const { name } = json.config as { readonly name: string };
    // Several inputs need their names.
    const tensor = inputs.length === 1 ? inputOf(json) : named(inputOf(json), name);
    results.set(key(name, 0), [tensor]);
  }
  const nameOf = (json: Json) => (json.name ?? (json.config as Json).name) as string;
  const needed = neededLayers(new Map(all.map((json) => [nameOf(json), json])), config.output_layers);
  for (const json of all) {
    const name = nameOf(json);
    if (json.class_name === 'InputLayer' || !needed.has(name)) continue;
    const layer = layerOf(json, classes);
    for (const [at, node] of ((json.inbound_nodes ?? []) as readonly Json[]).entries())
      pending.push({ layer, name, node, at });
  }
  // Nodes may be listed before those that they depend on.
  while (pending.length > 0) {
    const ready = pending.findIndex(({ node }) =>
      histories(node).every(([name, index]) => results.has(key(name, index))),
    );
    if (ready < 0)
      throw new ShoalError(
        'SHOAL_CORRUPT',
        `The layers ${pending.map(({ name }) => name).join(', ')} depend on what the model does not contain`,
      );
    const [{ layer, name, node, at }] = pending.splice(ready, 1) as [(typeof pending)[number]];
    const sources = histories(node).map(([from, index, tensor]) => results.get(key(from, index))?.[tensor]);
    results.set(key(name, at), layer.applyAll(sources as SymbolicTensor[]));
  }
  const ends = (given: unknown): readonly SymbolicTensor[] =>
    historyList(given).map(
      ([name, node, tensor]) => results.get(key(name, node))?.[tensor] as SymbolicTensor,
    );
  const outputs = ends(config.output_layers);
  return new Model<SymbolicTensor | readonly SymbolicTensor[]>({
    ...options,
    inputs: ends(config.input_layers),
    outputs: outputs.length === 1 ? (outputs[0] as SymbolicTensor) : outputs,
  });
}

const named = ({ parts }: SymbolicTensor, name: string): SymbolicTensor =>
  'input' in parts ? new SymbolicTensor({ input: { ...parts.input, name } }) : new SymbolicTensor(parts);

/** The layer, its application and the output. */
type History = readonly [name: string, node: number, tensor: number];
const historyList = (given: unknown): readonly History[] =>
  Array.isArray(given) && typeof given[0] === 'string'
    ? [given as unknown as History]
    : (given as readonly History[]);

/** The layers that the outputs depend on: Keras also lists the ops that compute masks. */
function neededLayers(layers: ReadonlyMap<string, Json>, outputs: unknown): ReadonlySet<string> {
  const needed = new Set<string>();
  const pending = historyList(outputs).map(([name]) => name);
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (needed.has(name)) continue;
    needed.add(name);
    const nodes = (layers.get(name)?.inbound_nodes ?? []) as readonly Json[];
    for (const node of nodes) pending.push(...histories(node).map(([from]) => from));
  }
  return needed;
}

/** What the layer is applied to, in order: arguments, then the initial state. */
function histories(node: Json): readonly History[] {
  if (!('args' in node)) throw unsupported('The JSON of Keras 2 cannot be read; write it with Keras 3');
  const found: History[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) visit(one);
    else if (typeof value === 'object' && value !== null) {
      const { class_name, config } = value as { readonly class_name?: string; readonly config?: Json };
      if (class_name === '__keras_tensor__') found.push(config?.keras_history as History);
    }
  };
  const { initial_state, value, key } = node.kwargs as Json;
  for (const part of [node.args, value, key, initial_state]) visit(part);
  return found;
}

function layerOf(json: Json, classes: Classes): Layer {
  const className = json.class_name as string;
  const { name, ...config } = json.config as Json & { readonly name: string };
  const Custom = lookUp(classes, className);
  if (Custom) return new Custom({ ...config, name } as never);
  if (Array.isArray(config.layers)) return modelOf(json, classes, {}).asLayer(name);
  const known = Object.hasOwn(LAYER_CLASSES, className) ? LAYER_CLASSES[className] : undefined;
  if (!known)
    throw unsupported(`Layer ${name} is of the class ${className}, which Shoal does not have`, {
      hint: `For a class of your own: modelFromJson(json, { layers: { ${className} } }).`,
    });
  const title = `Layer ${name} (${className})`;
  const options: Record<string, unknown> = { name };
  for (const [key, value] of Object.entries({ ...config, ...whenApplied(json) })) {
    if (key === 'dtype') checkDtype(title, value);
    else if (key === 'backward_layer') checkMirrored(title, config.layer as Json, value as Json | null);
    else if (!isNeutral(key, value)) options[ownOption(key)] = ownValue(title, key, value, classes);
  }
  const args = known.args.map((arg) => options[arg]);
  for (const arg of known.args) delete options[arg];
  try {
    return known.make(...([...args, options] as never[]));
  } catch (cause) {
    throw unsupported(`${title} cannot be read from JSON: ${messageOf(cause)}`, { cause });
  }
}

/** Options that Keras' layer takes when it is applied. */
function whenApplied(json: Json): Json {
  const [node] = (json.inbound_nodes ?? []) as readonly Json[];
  const causal = (node?.kwargs as Json | undefined)?.use_causal_mask;
  return causal ? { use_causal_mask: true } : {};
}

const isNeutral = (key: string, value: unknown): boolean =>
  value === null ||
  key === 'seed' ||
  key === 'build_input_shape' ||
  key === 'renorm_clipping' ||
  (key === 'dilation_rate' && [value].flat().every((rate) => rate === 1)) ||
  (NEUTRAL[key] ?? []).some((one) => JSON.stringify(one) === JSON.stringify(value));

/** Both directions of a layer are alike: the other direction is made of the first. */
function checkMirrored(title: string, forward: Json, backward: Json | null): void {
  const plain = (json: Json) =>
    JSON.stringify({ ...(json.config as Json), name: '', go_backwards: 0, zero_output_for_mask: 0 });
  if (!backward || plain(forward) === plain(backward)) return;
  throw unsupported(`${title} has a backward layer that differs from the forward one`);
}

function checkDtype(title: string, value: unknown): void {
  const name = typeof value === 'string' ? value : ((value as Json)?.config as Json | undefined)?.name;
  if (name !== undefined && name !== 'float32' && name !== 'int32' && name !== 'int64')
    throw unsupported(`${title} has the dtype ${name}; layers are float32`);
}

/** Lists of one element that are one number here. */
const SINGLE = ['kernel_size', 'strides', 'pool_size', 'dilation_rate', 'axis', 'output_shape'];

function ownValue(title: string, key: string, value: unknown, classes: Classes): unknown {
  if (SINGLE.includes(key) && Array.isArray(value) && value.length === 1) return value[0];
  if (key === 'layer') return layerOf(value as Json, classes);
  if (typeof value !== 'object' || Array.isArray(value)) return value;
  const { class_name: className, config } = value as {
    readonly class_name?: string;
    readonly config?: unknown;
  };
  if (/activation$/.test(key)) {
    if (typeof config === 'string') return config;
    throw unsupported(`${title}: the activation ${className} cannot be read from JSON`);
  }
  if (/(initializer|regularizer)$/.test(key) && typeof config === 'object' && config !== null) {
    const own = Object.entries(config).flatMap(([name, one]) =>
      one === null ? [] : [[ownOption(name), one]],
    );
    return { className, config: Object.fromEntries(own) };
  }
  throw invalid(`${title} has an unknown value of ${key}: ${JSON.stringify(value)}`);
}

const unsupported = (message: string, details: { readonly hint?: string; readonly cause?: unknown } = {}) =>
  new ShoalError('SHOAL_UNSUPPORTED', message, details);
