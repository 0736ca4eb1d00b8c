/** The inputs of a predict request in row format (`instances`) or column format (`inputs`). */

import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { partsOfRagged } from '../../../training/saved-model/signatures/ragged.js';
import type { Part, SignaturePlan } from '../models/signature-plan.js';
import type { NamedTensors } from '../requests.js';
import { invalidRequest, statusOf } from '../status.js';
import { denseTensor, stackedTensor } from './json-tensor.js';
import { debugText, isBase64, isObject, type JsonObject } from './json-text.js';

export type Format = 'row' | 'column';

export interface PredictInputs {
  readonly format: Format;
  readonly inputs: NamedTensors;
}

export function signatureName(request: JsonObject): string | undefined {
  const { signature_name: name } = request;
  if (name === undefined || typeof name === 'string') return name;
  throw invalidRequest(
    `JSON Value: ${debugText(request)} not formatted correctly. 'signature_name' key must be a string value.`,
  );
}

export function predictInputs(request: JsonObject, plan: SignaturePlan): PredictInputs {
  const { instances, inputs } = request;
  if (plan.inputs.length === 0)
    throw invalidRequest(`Failed to get input map for signature: ${plan.name || 'DEFAULT'}`);
  if (instances !== undefined && inputs !== undefined)
    throw invalidRequest(
      `JSON Value: ${debugText(request)} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist `,
    );
  if (instances !== undefined) {
    if (!Array.isArray(instances))
      throw invalidRequest(`JSON Value: ${debugText(request)} Expecting 'instances' to be an list/array`);
    if (instances.length === 0)
      throw invalidRequest(`JSON Value: ${debugText(request)} No values in 'instances' array`);
    return { format: 'row', inputs: fromRows(instances, plan) };
  }
  if (inputs === undefined) throw invalidRequest("Missing 'inputs' or 'instances' key");
  return { format: 'column', inputs: fromColumns(inputs, plan) };
}

/** The parts of each input of the signature. */
function entriesOf(plan: SignaturePlan): ReadonlyMap<string, readonly Part[]> {
  const entries = new Map<string, Part[]>();
  for (const part of plan.inputs) {
    const parts = entries.get(part.entry);
    if (parts) parts.push(part);
    else entries.set(part.entry, [part]);
  }
  return entries;
}

const isNamed = (value: unknown): value is JsonObject => isObject(value) && !isBase64(value);

function fromRows(rows: readonly unknown[], plan: SignaturePlan): NamedTensors {
  const entries = entriesOf(plan);
  if (!isObject(rows[0]) && entries.size > 1)
    throw invalidRequest(
      'instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map',
    );
  if (!isNamed(rows[0])) {
    const at = rows.findIndex(isNamed);
    if (at >= 0) throw invalidRequest(`Expecting value/list but got object at item ${at} of input list`);
    const [[name, parts]] = entries as unknown as [[string, readonly Part[]]];
    return stacked(name, parts, rows, () => '');
  }
  checkRows(rows, [...entries.keys()]);
  const named = [...entries].map(([name, parts]) =>
    stacked(
      name,
      parts,
      rows.map((row) => (row as JsonObject)[name]),
      () => ` key: ${name}`,
    ),
  );
  return Object.assign({}, ...named) as NamedTensors;
}

/** Every row is an object with one key for each input. */
function checkRows(rows: readonly unknown[], names: readonly string[]): void {
  const known = new Set(names);
  for (const [at, row] of rows.entries()) {
    if (!isNamed(row)) throw invalidRequest(`Expecting object but got list at item ${at} of input list`);
    const keys = Object.keys(row);
    const unknown = keys.find((key) => !known.has(key));
    if (unknown !== undefined)
      throw invalidRequest(
        `Failed to process element: ${at} key: ${unknown} of 'instances' list. Error: ` +
          `INVALID_ARGUMENT: JSON object: does not have named input: ${unknown}`,
      );
    if (keys.length !== known.size)
      throw invalidRequest(
        `Failed to process element: ${at} of 'instances' list. JSON object: ${debugText(row)} keys must be equal to: ` +
          [...names].sort().join(','),
      );
  }
}

function stacked(
  name: string,
  parts: readonly Part[],
  values: readonly unknown[],
  key: () => string,
): NamedTensors {
  const [first] = parts as [Part];
  if (first.spec.kind !== 'dense') return tensorsOf(name, parts, values);
  const onError = (error: unknown, index: number): Error => {
    const { status, message } = statusOf(error);
    return invalidRequest(
      `Failed to process element: ${index}${key()} of 'instances' list. Error: ${status}: ${message}`,
    );
  };
  return { [name]: stackedTensor(values, first.dtype, onError) };
}

function fromColumns(value: unknown, plan: SignaturePlan): NamedTensors {
  const entries = entriesOf(plan);
  const [only] = entries as unknown as [[string, readonly Part[]]];
  if (!isNamed(value) || (entries.size === 1 && isSparse(only[1]) && only[0] in value === false)) {
    if (entries.size > 1)
      throw invalidRequest(
        'inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map',
      );
    return tensorsOf(only[0], only[1], value);
  }
  const named = [...entries].flatMap(([name, parts]) => {
    if (value[name] === undefined) {
      if (plan.hasDefault(name)) return [];
      throw invalidRequest(`Missing named input: ${name} in 'inputs' object.`);
    }
    return [tensorsOf(name, parts, value[name])];
  });
  return Object.assign({}, ...named) as NamedTensors;
}

const isSparse = ([part]: readonly Part[]): boolean => part?.spec.kind === 'sparse';

/** The tensors of one input. A sparse one is an object of its parts, a ragged one nested lists of any lengths. */
function tensorsOf(name: string, parts: readonly Part[], value: unknown): NamedTensors {
  const [first] = parts as [Part];
  switch (first.spec.kind) {
    case 'dense':
      return { [name]: denseTensor(value, first.dtype) };
    case 'sparse': {
      if (!isNamed(value))
        throw invalidRequest(
          `The input ${name} is sparse: pass {"indices": …, "values": …, "dense_shape": …}`,
        );
      const { indices, values, dense_shape: denseShape = value.denseShape } = value;
      const given = [indices, values, denseShape];
      if (given.includes(undefined))
        throw invalidRequest(`The sparse input ${name} needs indices, values and dense_shape`);
      return namedParts(parts, given);
    }
    case 'ragged':
      return namedParts(parts, partsOfRagged(value, parts.length, `The input ${name}`));
    default:
      if (!Array.isArray(value) || value.length !== parts.length)
        throw invalidRequest(`The input ${name} is made of ${parts.length} tensors: pass them as a list`);
      return namedParts(parts, value);
  }
}

function namedParts(parts: readonly Part[], values: readonly unknown[]): NamedTensors {
  return Object.fromEntries(
    parts.map(({ name, dtype, shape }, i) => {
      const value = values[i];
      if (!(value instanceof Tensor)) {
        const tensor = denseTensor(value, dtype);
        // An empty list does not show how many columns its rows would have.
        const isEmptyMatrix = tensor.size === 0 && shape?.length === 2 && tensor.rank === 1;
        return [name, isEmptyMatrix ? tensor.reshape([0, shape[1] ?? 0]) : tensor];
      }
      return [
        name,
        value.dtype === dtype ? value : Tensor.of(value.toArray() as TensorLike as never, { dtype }),
      ];
    }),
  );
}
