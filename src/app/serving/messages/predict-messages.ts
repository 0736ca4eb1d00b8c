/** PredictRequest and PredictResponse, read and written without building messages: they are on the path of every request. */
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { ModelSpec, NamedTensors, PredictResponse, ResolvedSpec } from '../requests.js';
import { invalidRequest } from '../status.js';
import { readTensorProto, type TensorBudget } from './tensor-reader.js';
import { writeTensor } from './tensor-writer.js';
import { malformed, VARINT, WireReader } from './wire-reader.js';
import { bytesField, intField, type Parts, stringField } from './wire-writer.js';

export interface MessageLimits {
  /** What the tensors of a request may take up in memory. */
  readonly maxTensorBytes: number;
  /** How many strings they may have. */
  readonly maxStrings: number;
}

/** Far more than a signature has. */
const MAX_INPUTS = 10_000;

export const missingModelSpec = () => invalidRequest('Missing ModelSpec');

/** A request whose tensors are still serialized: its model may not exist. */
export interface SerializedPredict {
  readonly spec: ModelSpec;
  readonly outputFilter: readonly string[];
  readonly inputs: ReadonlyMap<string, Uint8Array>;
}

export function readPredict(message: Uint8Array): SerializedPredict {
  const reader = new WireReader(message);
  let spec: ModelSpec | undefined;
  const outputFilter: string[] = [];
  const inputs = new Map<string, Uint8Array>();
  while (reader.next()) {
    if (reader.field === 1) spec = { ...spec, ...readSpec(reader.bytes()) };
    else if (reader.field === 2) readEntry(reader.bytes(), inputs);
    else if (reader.field === 3) outputFilter.push(reader.string());
    else reader.raw();
    if (inputs.size > MAX_INPUTS || outputFilter.length > MAX_INPUTS)
      throw invalidRequest(`A request has more than ${MAX_INPUTS} inputs or filtered outputs`);
  }
  if (!spec) throw missingModelSpec();
  return { spec, outputFilter, inputs };
}

export function readInputs(
  inputs: ReadonlyMap<string, Uint8Array>,
  { maxTensorBytes, maxStrings }: MessageLimits,
): NamedTensors {
  const budget: TensorBudget = { bytes: maxTensorBytes, strings: maxStrings };
  // Without a prototype: an input may have any name.
  const tensors: Record<string, Tensor> = Object.create(null);
  for (const [name, bytes] of inputs) tensors[name] = readTensorProto(bytes, name, budget);
  return tensors;
}

export function readSpec(message: Uint8Array): ModelSpec {
  const reader = new WireReader(message);
  const spec: { name: string; version?: number; label?: string; signatureName?: string } = { name: '' };
  while (reader.next()) {
    if (reader.field === 1) spec.name = reader.string();
    else if (reader.field === 2) {
      spec.version = readInt64Value(reader.bytes());
      delete spec.label;
    } else if (reader.field === 3) spec.signatureName = reader.string();
    else if (reader.field === 4) {
      spec.label = reader.string();
      delete spec.version;
    } else reader.raw();
  }
  return spec;
}

function readInt64Value(message: Uint8Array): number {
  const reader = new WireReader(message);
  let value = 0;
  while (reader.next()) {
    if (reader.field === 1) {
      reader.expect(VARINT);
      value = reader.int64();
    } else reader.raw();
  }
  return value;
}

function readEntry(message: Uint8Array, entries: Map<string, Uint8Array>): void {
  const reader = new WireReader(message);
  let key = '';
  let value: Uint8Array = new Uint8Array(0);
  while (reader.next()) {
    if (reader.field === 1) key = reader.string();
    else if (reader.field === 2) value = reader.bytes();
    else throw malformed();
  }
  entries.set(key, value);
}

/** The parts are views of the tensors' memory: they are to be joined before those are disposed. */
export function writePredictResponse({ spec, outputs }: PredictResponse): Parts {
  const parts: Uint8Array[] = [];
  for (const [name, tensor] of Object.entries(outputs)) {
    const value = bytesField(2, ...writeTensor(tensor, name));
    parts.push(...bytesField(1, ...stringField(1, name), ...value));
  }
  parts.push(...bytesField(2, ...writeSpec(spec)));
  return parts;
}

const writeSpec = ({ name, version, signatureName }: ResolvedSpec): Parts => [
  ...stringField(1, name),
  ...bytesField(2, ...intField(1, version)),
  ...stringField(3, signatureName),
];
