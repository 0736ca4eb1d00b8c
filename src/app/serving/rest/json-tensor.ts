/** JSON values to tensors: nested lists of one shape, filled into one array without a copy in between. */
import { type DType, dtypeRow } from '../../../tensorflow/tensor/dtype.js';
import { numberToBfloat16, numberToHalf } from '../../../tensorflow/tensor/half.js';
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { protoName } from '../models/signature-plan.js';
import { invalidRequest, ServingError } from '../status.js';
import { debugText, decodeBase64, integerOf, isBase64, isObject, numberOf, typeName } from './json-text.js';

/** Writes one value to the array of the tensor. */
type Put = (value: unknown, at: number) => void;

interface Target {
  readonly tensor: () => Tensor;
  /** Frees the memory of a tensor that is not used. */
  readonly dispose?: () => void;
  readonly put: Put;
  /** Writes a list of numbers; false if one of them needs `put`. */
  readonly putNumbers?: (values: readonly unknown[], at: number) => boolean;
}

/** TensorFlow's. */
const MAX_RANK = 254;

/** The shape of nested lists, by the first element of each. */
export function jsonShape(value: unknown): number[] {
  const shape: number[] = [];
  for (let item = value; Array.isArray(item); item = item[0]) {
    shape.push(item.length);
    checkRank(shape);
  }
  return shape;
}

/** TensorFlow ends the process for a shape with more dimensions. */
function checkRank(shape: readonly number[]): void {
  if (shape.length > MAX_RANK)
    throw invalidRequest(`A tensor has at most ${MAX_RANK} dimensions; the request has lists in more lists`);
}

/** For a walk that checks the lengths of all lists: only then is the memory that a shape needs bounded by the text. */
const ONLY_LISTS: Pick<Target, 'put' | 'putNumbers'> = { put: () => {}, putNumbers: () => true };

export function denseTensor(value: unknown, dtype: DType): Tensor {
  const shape = jsonShape(value);
  fill(value, 0, shape, 0, ONLY_LISTS);
  return filled(targetOf(dtype, shape), (target) => fill(value, 0, shape, 0, target));
}

/** The tensor of a target once its values are written. Its memory may be large: after an error it is freed at once. */
function filled(target: Target, write: (target: Target) => void): Tensor {
  try {
    write(target);
  } catch (error) {
    target.dispose?.();
    throw error;
  }
  return target.tensor();
}

/**
 * A tensor of several values of the same shape. `onError` adds to an error the position of the value that caused it.
 */
export function stackedTensor(
  values: readonly unknown[],
  dtype: DType,
  onError: (error: unknown, index: number) => Error,
): Tensor {
  const inner = jsonShape(values[0]);
  const shape = [values.length, ...inner];
  checkRank(shape);
  const size = sizeOf(inner);
  const eachValue = (visit: (value: unknown, at: number) => void) => {
    let index = 0;
    try {
      for (; index < values.length; index++) visit(values[index], index * size);
    } catch (error) {
      throw onError(error, index);
    }
  };
  if (inner.length > 0)
    eachValue((value) => {
      if (!hasShape(value, inner)) throw shapeMismatch(inner, jsonShape(value));
      fill(value, 0, inner, 0, ONLY_LISTS);
    });
  return filled(targetOf(dtype, shape), (target) => {
    if (inner.length === 0 && target.putNumbers?.(values, 0)) return;
    eachValue((value, at) => {
      if (!hasShape(value, inner)) throw shapeMismatch(inner, jsonShape(value));
      fill(value, 0, inner, at, target);
    });
  });
}

/** Whether `jsonShape` of a value is this shape; it is not made for each of many rows. */
function hasShape(value: unknown, shape: readonly number[]): boolean {
  let item = value;
  for (const size of shape) {
    if (!Array.isArray(item) || item.length !== size) return false;
    item = item[0] as unknown;
  }
  return !Array.isArray(item);
}

function shapeMismatch(expected: readonly number[], got: readonly number[]): Error {
  if (sizeOf(expected) !== sizeOf(got))
    return invalidRequest(`Expecting tensor size: ${sizeOf(expected)} but got: ${sizeOf(got)}`);
  return invalidRequest(`Expecting shape [${expected.join(',')}] but got: [${got.join(',')}]`);
}

/** Fills the elements of a value at nesting `level` from `at`; returns where the next ones begin. */
function fill(
  value: unknown,
  level: number,
  shape: readonly number[],
  at: number,
  target: Pick<Target, 'put' | 'putNumbers'>,
): number {
  if (!Array.isArray(value)) {
    if (level !== shape.length)
      throw invalidRequest(
        `JSON Value: ${debugText(value)} found at incorrect level: ${level + 1} in the JSON DOM. ` +
          `Expected at level: ${shape.length}`,
      );
    target.put(value, at);
    return at + 1;
  }
  if (level >= shape.length)
    throw invalidRequest(`Encountered list at unexpected level: ${level} expected < ${shape.length}`);
  if (value.length !== shape[level])
    throw invalidRequest(
      `Encountered list at unexpected size: ${value.length} at level: ${level} expected size: ${shape[level]}`,
    );
  if (level === shape.length - 1 && target.putNumbers?.(value, at)) return at + value.length;
  let next = at;
  for (const item of value as unknown[]) next = fill(item, level + 1, shape, next, target);
  return next;
}

const wrongType = (value: unknown, dtype: DType): Error =>
  invalidRequest(
    `JSON Value: ${debugText(value)} Type: ${typeName(value)} is not of expected type: ${protoName(dtype)}`,
  );

function targetOf(dtype: DType, shape: readonly number[]): Target {
  const { kind, array: ArrayType } = dtypeRow(dtype);
  const size = sizeOf(shape);
  if (kind === 'string') return stringTarget(shape, size);
  if (!ArrayType || kind === 'complex' || kind === 'opaque')
    throw new ServingError('UNIMPLEMENTED', `Conversion of JSON Value to type: ${protoName(dtype)}`);
  const tensor = Tensor.allocate(shape, dtype);
  const data = tensor.data as unknown as { [at: number]: number | bigint };
  const ends = { tensor: () => tensor, dispose: () => tensor.dispose() };
  switch (kind) {
    case 'float':
      return {
        ...ends,
        put: (value, at) => {
          const number = numberOf(value);
          if (number === undefined) throw wrongType(value, dtype);
          data[at] = number;
        },
        putNumbers: (values, at) => {
          for (let i = 0; i < values.length; i++) {
            const value = values[i];
            if (typeof value !== 'number' || !Number.isFinite(value)) return false;
            data[at + i] = value;
          }
          return true;
        },
      };
    case 'half':
    case 'bfloat16': {
      const words = kind === 'half' ? numberToHalf : numberToBfloat16;
      const put: Put = (value, at) => {
        const number = numberOf(value);
        if (number === undefined) throw wrongType(value, dtype);
        data[at] = words(number);
      };
      return { ...ends, put };
    }
    case 'bool': {
      const put: Put = (value, at) => {
        if (typeof value !== 'boolean') throw wrongType(value, dtype);
        data[at] = value ? 1 : 0;
      };
      return { ...ends, put };
    }
    default: {
      const [least, most] = rangeOf(dtype);
      const isBig = kind === 'bigint';
      const put: Put = (value, at) => {
        const integer = integerOf(value);
        if (integer === undefined || integer < least || integer > most) throw wrongType(value, dtype);
        data[at] = isBig ? integer : Number(integer);
      };
      if (isBig) return { ...ends, put };
      const [low, high] = [Number(least), Number(most)];
      const putNumbers = (values: readonly unknown[], at: number): boolean => {
        for (let i = 0; i < values.length; i++) {
          const value = values[i];
          if (typeof value !== 'number' || !Number.isInteger(value) || value < low || value > high)
            return false;
          data[at + i] = value;
        }
        return true;
      };
      return { ...ends, put, putNumbers };
    }
  }
}

function rangeOf(dtype: DType): readonly [bigint, bigint] {
  const bits = BigInt(dtypeRow(dtype).size * 8);
  return /^q?u/.test(dtype) ? [0n, (1n << bits) - 1n] : [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n];
}

function stringTarget(shape: readonly number[], size: number): Target {
  const strings = new Array<string | Uint8Array>(size);
  return {
    tensor: () => Tensor.of(strings, { dtype: 'string', shape }),
    put: (value, at) => {
      if (isObject(value)) {
        if (!isBase64(value))
          throw invalidRequest(`JSON Value: ${debugText(value)} not formatted correctly for base64 data`);
        strings[at] = decodeBase64(value);
      } else if (typeof value === 'string' && numberOf(value) === undefined) strings[at] = value;
      else throw wrongType(value, 'string');
    },
  };
}
