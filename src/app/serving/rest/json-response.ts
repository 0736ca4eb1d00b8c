/** Answers as JSON: tensors in row or column format, numbers as TensorFlow Serving writes them. */
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import { bfloat16ToNumber, halfToNumber } from '../../../tensorflow/tensor/half.js';
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { ClassifyResponse, NamedTensors, RegressResponse } from '../requests.js';
import { invalidRequest, ServingError } from '../status.js';
import { MAX_VALUES } from './body.js';
import type { Format } from './predict-request.js';

/** Writes elements [start, start + count) of a tensor that have the shape `shape`. */
interface Elements {
  readonly shape: readonly number[];
  readonly write: (at: number) => string;
}

/** A fraction with the fewest digits that give the same float; whole numbers end in `.0`. */
export function decimal(value: number, isSingle = true): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (Object.is(value, -0)) return '-0.0';
  const text = isSingle ? shortest(value) : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function shortest(value: number): string {
  const rounded = Math.round(value * 1e6) / 1e6;
  if (Math.fround(rounded) === value) return String(rounded);
  for (const digits of [6, 7, 8]) {
    const near = Number(value.toPrecision(digits));
    if (Math.fround(near) === value) return String(near);
  }
  return String(Number(value.toPrecision(9)));
}

function elementsOf(name: string, tensor: Tensor): Elements {
  const { dtype, shape } = tensor;
  return { shape, write: writerOf(name, dtype, tensor) };
}

function writerOf(name: string, dtype: DType, tensor: Tensor): (at: number) => string {
  const { kind } = DTYPES[dtype];
  if (kind === 'string') return stringWriter(name, tensor);
  if (kind === 'complex' || kind === 'opaque')
    throw invalidRequest(`Failed to write JSON value for tensor type: ${dtype}`);
  const data = tensor.data as unknown as { readonly [at: number]: number | bigint };
  switch (kind) {
    case 'float':
      return (at) => decimal(data[at] as number, dtype === 'float32');
    case 'half':
      return (at) => decimal(halfToNumber(data[at] as number));
    case 'bfloat16':
      return (at) => decimal(bfloat16ToNumber(data[at] as number));
    case 'bool':
      return (at) => (data[at] ? 'true' : 'false');
    default:
      return (at) => String(data[at]);
  }
}

/** Outputs whose names end in `_bytes` are base64. */
function stringWriter(name: string, tensor: Tensor): (at: number) => string {
  const bytes = tensor.bytes();
  if (name.endsWith('_bytes'))
    return (at) => `{"b64": "${Buffer.from(bytes[at] as Uint8Array).toString('base64')}"}`;
  const decoder = new TextDecoder();
  return (at) => JSON.stringify(decoder.decode(bytes[at]));
}

/** The nested lists of the axes from `axis`, beginning at element `at`. */
function write({ shape, write: one }: Elements, axis: number, at: number): string {
  if (axis >= shape.length) return one(at);
  const count = shape[axis] as number;
  const items = new Array<string>(count);
  if (axis === shape.length - 1) {
    for (let i = 0; i < count; i++) items[i] = one(at + i);
  } else {
    const step = sizeOf(shape.slice(axis + 1));
    for (let i = 0; i < count; i++) items[i] = write({ shape, write: one }, axis + 1, at + i * step);
  }
  return `[${items.join(', ')}]`;
}

const object = (entries: readonly (readonly [string, string])[]): string =>
  `{${entries.map(([key, text]) => `${JSON.stringify(key)}: ${text}`).join(', ')}}`;

const document = (key: string, text: string): string => `{\n    "${key}": ${text}\n}`;

export function predictResponse(format: Format, outputs: NamedTensors): string {
  const entries = Object.entries(outputs);
  if (entries.length === 0) throw invalidRequest('Cannot convert empty tensor map to JSON');
  const values = entries.reduce((sum, [, { size }]) => sum + size, 0);
  if (values > MAX_VALUES)
    throw new ServingError('RESOURCE_EXHAUSTED', `The answer has ${values} values, more than ${MAX_VALUES}`, {
      hint: 'Send fewer instances per request, or use gRPC.',
    });
  return format === 'row' ? rows(entries) : columns(entries);
}

function columns(entries: readonly (readonly [string, Tensor])[]): string {
  const texts = entries.map(([name, tensor]) => [name, write(elementsOf(name, tensor), 0, 0)] as const);
  return document('outputs', texts.length > 1 ? object(texts) : texts[0]![1]);
}

function rows(entries: readonly (readonly [string, Tensor])[]): string {
  let count = -1;
  const outputs = entries.map(([name, tensor]) => {
    const [own] = tensor.shape;
    if (own === undefined) throw invalidRequest(`Tensor name: ${name} has no shape information `);
    if (count >= 0 && own !== count)
      throw invalidRequest(`Tensor name: ${name} has inconsistent batch size: ${own} expecting: ${count}`);
    count = own;
    return { name, elements: elementsOf(name, tensor), step: sizeOf(tensor.shape.slice(1)) };
  });
  const items = Array.from({ length: count }, (_, row) => {
    const texts = outputs.map(({ name, elements, step }) => [name, write(elements, 1, row * step)] as const);
    return texts.length > 1 ? object(texts) : texts[0]![1];
  });
  return document('predictions', `[${items.join(', ')}]`);
}

export function classifyResponse({ classifications }: ClassifyResponse): string {
  const items = classifications.map(
    (classes) =>
      `[${classes.map(({ label, score }) => `[${JSON.stringify(label)}, ${decimal(score)}]`).join(', ')}]`,
  );
  return document('results', `[${items.join(', ')}]`);
}

export const regressResponse = ({ regressions }: RegressResponse): string =>
  document('results', `[${regressions.map((value) => decimal(value)).join(', ')}]`);

export const errorResponse = (message: string): string => document('error', JSON.stringify(message));
