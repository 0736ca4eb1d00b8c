/**
 * A serialized TensorProto as a tensor. `tensor_content` and packed floating-point values are copied as one block, into
 * TensorFlow's memory if they are large, so that a run uses them without another copy. As in TensorFlow, values that are
 * missing at the end repeat the last one, or are zero if there is none.
 */
import { messageOf } from '../../../base/errors/errors.js';
import { DTYPES, type DType, dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import { hasInvalidWords, wordsPerElement } from '../../../tensorflow/tensor/literal.js';
import { COPY_LIMIT, Tensor } from '../../../tensorflow/tensor/tensor.js';
import { invalidRequest, ServingError } from '../status.js';
import { CONTENT_FIELD, DTYPE_FIELD, type Encoding, SHAPE_FIELD, VALUE_FIELDS } from './tensor-fields.js';
import { readVarints } from './varints.js';
import { BYTES, VARINT, WireReader } from './wire-reader.js';

/** What the tensors of one request may take up: a short message can describe a large tensor. */
export interface TensorBudget {
  bytes: number;
  strings: number;
}

const MAX_RANK = 254;
const NO_BYTES = new Uint8Array(0);

/** Why a TensorProto is not a tensor; the caller names the input. */
class NotATensor extends Error {}

interface Fields {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly content: Uint8Array;
}

/** `name` is the input's, for errors. */
export function readTensorProto(bytes: Uint8Array, name: string, budget: TensorBudget): Tensor {
  try {
    return toTensor(readFields(bytes), bytes, budget);
  } catch (error) {
    if (!(error instanceof NotATensor)) throw error;
    throw invalidRequest(`tensor parsing error: ${name}: ${error.message}`);
  }
}

function readFields(bytes: Uint8Array): Fields {
  const reader = new WireReader(bytes);
  let number = 0;
  let shape: number[] = [];
  let content: Uint8Array = NO_BYTES;
  while (reader.next()) {
    if (reader.field === DTYPE_FIELD) {
      reader.expect(VARINT);
      number = reader.uint();
    } else if (reader.field === SHAPE_FIELD) {
      // Parts of a message that is sent several times are joined.
      shape = [...shape, ...readShape(reader.bytes())];
      checkRank(shape);
    } else if (reader.field === CONTENT_FIELD) content = reader.bytes();
    else reader.raw();
  }
  if (number === 0) throw new NotATensor('it has no dtype');
  try {
    return { dtype: dtypeFromNumber(number), shape, content };
  } catch (error) {
    throw new NotATensor(messageOf(error));
  }
}

function readShape(bytes: Uint8Array): number[] {
  const shape: number[] = [];
  const reader = new WireReader(bytes);
  while (reader.next()) {
    if (reader.field === 3) {
      reader.expect(VARINT);
      if (reader.uint() !== 0) throw new NotATensor('its rank is unknown');
    } else if (reader.field === 2) shape.push(readDimension(reader.bytes()));
    else reader.raw();
    checkRank(shape);
  }
  return shape;
}

function checkRank(shape: readonly number[]): void {
  if (shape.length > MAX_RANK) throw new NotATensor(`it has more than ${MAX_RANK} dimensions`);
}

function readDimension(bytes: Uint8Array): number {
  let size = 0;
  const reader = new WireReader(bytes);
  while (reader.next()) {
    if (reader.field === 1) {
      reader.expect(VARINT);
      size = reader.int64();
    } else reader.raw();
  }
  if (!Number.isSafeInteger(size) || size < 0) throw new NotATensor(`it has a dimension of ${size}`);
  return size;
}

function toTensor({ dtype, shape, content }: Fields, message: Uint8Array, budget: TensorBudget): Tensor {
  const count = countOf(shape);
  const field = VALUE_FIELDS[dtype];
  const { array: ArrayType, size } = DTYPES[dtype];
  if (!field || (!ArrayType && dtype !== 'string')) throw new NotATensor(`${dtype} cannot be sent`);
  if (dtype === 'string') return stringTensor(message, shape, count, field.number, budget);
  const length = count * size;
  take(budget, 'bytes', length);
  const hasContent = content.length > 0;
  if (hasContent && content.length !== length)
    throw new NotATensor(`${content.length} bytes of content for ${length} of its shape`);
  const values = hasContent ? content : valuesOf(message, field.number, field.encoding);
  if ((hasContent || field.encoding === 'raw') && values.length >= length) {
    const block = values.length === length ? values : values.subarray(0, length);
    if (length > COPY_LIMIT && !hasInvalidWords(dtype)) {
      const tensor = Tensor.allocate(shape, dtype);
      tensor.setBytes(block, 0);
      return tensor;
    }
    return checked(dtype, shape, new (ArrayType as Float32ArrayConstructor)(aligned(block)));
  }
  const words = new (ArrayType as Int32ArrayConstructor)(count * wordsPerElement(dtype));
  fill(words, values, field.encoding, wordsPerElement(dtype));
  return checked(dtype, shape, words);
}

/** As in TensorFlow, no product of the first dimensions may be too large, even if a later one is 0. */
function countOf(shape: readonly number[]): number {
  let count = 1;
  for (const size of shape) {
    count *= size;
    if (!Number.isSafeInteger(count)) throw new NotATensor(`its shape is [${shape}]`);
  }
  return count;
}

/** A copy in memory of its own, which typed arrays need to be aligned. */
const aligned = (block: Uint8Array): ArrayBuffer =>
  block.buffer.slice(block.byteOffset, block.byteOffset + block.byteLength) as ArrayBuffer;

function checked(dtype: DType, shape: readonly number[], words: NodeJS.TypedArray): Tensor {
  try {
    return Tensor.of(words, { dtype, shape });
  } catch (error) {
    throw new NotATensor(messageOf(error));
  }
}

/** Reads what values there are, and repeats the last one. */
function fill(words: NodeJS.TypedArray, values: Uint8Array, encoding: Encoding, perElement: number): void {
  let found: number;
  if (encoding === 'varint') found = readVarints(values, words);
  else {
    new Uint8Array(words.buffer).set(values);
    found = Math.floor(values.length / words.BYTES_PER_ELEMENT);
    found -= found % perElement;
  }
  if (found < perElement || found >= words.length) return;
  const last = words.subarray(found - perElement, found);
  if (perElement === 1) (words as Float32Array).fill(last[0] as number, found);
  else
    for (let at = found; at < words.length; at += perElement) (words as Float32Array).set(last as never, at);
}

/** The values of a repeated field as one block: most often it is one packed field already. */
function valuesOf(message: Uint8Array, number: number, encoding: Encoding): Uint8Array {
  let block: Uint8Array = NO_BYTES;
  let joined: Uint8Array | undefined;
  let length = 0;
  const reader = new WireReader(message);
  while (reader.next()) {
    const isPacked = reader.type === BYTES;
    const value = reader.raw();
    if (reader.field !== number) continue;
    if (encoding === 'varint' && !isPacked && reader.type !== VARINT) throw new NotATensor('a misread value');
    if (length === 0) {
      block = value;
      length = value.length;
      continue;
    }
    if (!joined || joined.length < length + value.length) {
      const larger = new Uint8Array(Math.max(64, (length + value.length) * 2));
      larger.set(joined ? joined.subarray(0, length) : block);
      joined = larger;
    }
    joined.set(value, length);
    length += value.length;
  }
  return joined ? joined.subarray(0, length) : block;
}

function stringTensor(
  message: Uint8Array,
  shape: readonly number[],
  count: number,
  number: number,
  budget: TensorBudget,
): Tensor {
  take(budget, 'strings', count);
  const strings: Uint8Array[] = [];
  const reader = new WireReader(message);
  while (reader.next() && strings.length < count) {
    const value = reader.raw();
    if (reader.field === number) strings.push(value);
  }
  const last = strings.at(-1) ?? NO_BYTES;
  while (strings.length < count) strings.push(last);
  return Tensor.of(strings, { dtype: 'string', shape });
}

function take(budget: TensorBudget, what: keyof TensorBudget, amount: number): void {
  if (amount > budget[what])
    throw new ServingError(
      'RESOURCE_EXHAUSTED',
      `A tensor needs ${amount} ${what}; ${budget[what]} are left of what a request may have`,
    );
  budget[what] -= amount;
}
