/**
 * A signature, prepared for calls: its inputs and outputs as flat lists of tensors, each with the name by which a
 * request calls it. Errors about names are in TensorFlow Serving's words.
 */

import type { SignatureDef, TensorInfo } from '../../../base/proto/generated/model_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { PreparedRun, Session } from '../../../tensorflow/session/session.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { isCompatible, type PartialShape, type Shape } from '../../../tensorflow/tensor/shape.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { specOf, type TensorSpec } from '../../../training/saved-model/signatures/signature-values.js';
import type { NamedTensors } from '../requests.js';
import type { BatchOwner } from '../runs/batcher.js';
import { invalidRequest } from '../status.js';

/** One tensor of an input or output. */
export interface Part {
  /** As requests name it: `x`, or `x/indices` for a part of a sparse `x`. */
  readonly name: string;
  /** The name in the signature. */
  readonly entry: string;
  readonly spec: TensorSpec;
  readonly output: Output;
  readonly dtype: DType;
  readonly shape: PartialShape;
}

/** The names of the tensors behind one input or output. */
export function partNames(entry: string, { kind, tensors }: TensorSpec): readonly string[] {
  switch (kind) {
    case 'dense':
      return [entry];
    case 'sparse':
      return [`${entry}/indices`, `${entry}/values`, `${entry}/dense_shape`];
    case 'ragged':
      return [`${entry}/values`, ...tensors.slice(1).map((_, axis) => `${entry}/row_splits_${axis}`)];
    default:
      return tensors.map((_, i) => `${entry}/${i}`);
  }
}

/** Filters of outputs whose runs are kept ready; a client that sends ever other ones cannot fill the memory. */
const MAX_PREPARED = 64;

export interface PreparedOutputs {
  readonly run: PreparedRun['run'];
  /** The batches of these outputs. */
  readonly batches: BatchOwner;
}

export class SignaturePlan {
  readonly name: string;
  readonly def: SignatureDef;
  readonly inputs: readonly Part[];
  readonly outputs: readonly Part[];
  readonly #session: Session;
  readonly #defaults: ReadonlyMap<string, Tensor>;
  readonly #prepared = new Map<string, PreparedOutputs>();

  constructor(
    session: Session,
    name: string,
    def: SignatureDef,
    defaults: ReadonlyMap<string, Tensor> = new Map(),
  ) {
    this.name = name;
    this.def = def;
    this.#session = session;
    this.#defaults = defaults;
    this.inputs = partsOf(session.graph, def.inputs);
    this.outputs = partsOf(session.graph, def.outputs);
  }

  /** Whether requests may leave out an input. */
  hasDefault(entry: string): boolean {
    return this.#defaults.has(entry);
  }

  /** The values of `inputs`, in order, out of those of a request. */
  bind(given: NamedTensors): Tensor[] {
    const names = Object.keys(given);
    const needed = this.inputs.filter(({ name }) => given[name] === undefined);
    const missing = needed.filter(({ entry }) => !this.#defaults.has(entry));
    const count = this.inputs.length;
    if (names.length > count || (names.length < count && missing.length > 0)) throw this.#wrongSize(names);
    if (needed.length > count - names.length || missing.length > 0) {
      const known = new Set(this.inputs.map(({ name }) => name));
      const unknown = names.find((name) => !known.has(name)) ?? '';
      throw invalidRequest(
        `input tensor alias not found in signature: ${unknown}. Inputs expected to be in the set {${listed([...known])}}.`,
      );
    }
    return this.inputs.map((part) => {
      const value = given[part.name] ?? (this.#defaults.get(part.entry) as Tensor);
      checkInput(part, value);
      return value;
    });
  }

  #wrongSize(names: readonly string[]): Error {
    const known = this.inputs.map(({ name }) => name);
    const extra = names.filter((name) => !known.includes(name));
    const missing = known.filter((name) => !names.includes(name));
    return invalidRequest(
      `input size does not match signature: ${names.length}!=${known.length} len({${listed(names)}}) != ` +
        `len({${listed(known)}}). Sent extra: {${listed(extra)}}. Missing but required: {${listed(missing)}}.`,
    );
  }

  /** The outputs that a filter asks for, all parts of each. */
  choose(filter: readonly string[] = []): readonly Part[] {
    if (filter.length === 0) return this.outputs;
    const seen = new Set<string>();
    return filter.flatMap((alias) => {
      const found = this.outputs.filter(({ entry, name }) => entry === alias || name === alias);
      if (found.length === 0)
        throw invalidRequest(
          `output tensor alias not found in signature: ${alias} Outputs expected to be in the set ` +
            `{${listed(Object.keys(this.def.outputs))}}.`,
        );
      if (seen.has(alias)) throw invalidRequest(`duplicate output tensor alias: ${alias}`);
      seen.add(alias);
      return found;
    });
  }

  prepared(outputs: readonly Part[]): PreparedOutputs {
    const key = outputs.map(({ name }) => name).join('\0');
    const found = this.#prepared.get(key);
    if (found) return found;
    const run = this.#prepare(outputs);
    const prepared = { run, batches: {} };
    if (this.#prepared.size < MAX_PREPARED) this.#prepared.set(key, prepared);
    return prepared;
  }

  /** An output that is an input too is returned as it was given: TensorFlow does not fetch what it is fed. */
  #prepare(outputs: readonly Part[]): PreparedRun['run'] {
    const fed = outputs.map(({ output }) =>
      this.inputs.findIndex((input) => input.output.name === output.name),
    );
    const fetched = outputs.filter((_, i) => (fed[i] as number) < 0);
    const { run } = this.#session.prepare(
      fetched.map(({ output }) => output),
      this.inputs.map(({ output }) => output),
      [],
    );
    if (fetched.length === outputs.length) return run;
    return async (values, options) => {
      const results = [...(await run(values, options))].reverse();
      return fed.map((at) => (at < 0 ? results.pop() : values[at]) as Tensor);
    };
  }
}

const listed = (names: readonly string[]): string => [...names].sort().join(',');

function partsOf(graph: Graph, infos: Readonly<Record<string, TensorInfo>>): readonly Part[] {
  return Object.entries(infos)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([entry, info]) => {
      const spec = specOf(info);
      return partNames(entry, spec).map((name, i) => {
        const output = graph.output(spec.tensors[i] as string);
        return { name, entry, spec, output, dtype: output.dtype, shape: output.shape };
      });
    });
}

function checkInput({ name, dtype, shape }: Part, value: Tensor): void {
  if (value.dtype !== dtype)
    throw invalidRequest(
      `Expects input ${name} to be ${protoName(dtype)} but ${protoName(value.dtype)} is provided`,
    );
  if (!isCompatible(value.shape, shape))
    throw invalidRequest(
      `input ${name} has shape ${shapeText(value.shape)}, but the model expects ${shapeText(shape)}`,
    );
}

const shapeText = (shape: Shape | PartialShape): string =>
  shape === null ? '[?]' : `[${shape.map((size) => size ?? -1).join(',')}]`;

const PROTO_NAMES: Readonly<Partial<Record<DType, string>>> = {
  float32: 'float',
  float64: 'double',
  float16: 'half',
};

/** The name of an element type as TensorFlow's messages have it. */
export const protoName = (dtype: DType): string => PROTO_NAMES[dtype] ?? dtype;
