/** Converts nested JavaScript values and flat arrays to the shape, dtype and elements of a tensor. */
import { invalid } from '../../base/errors/errors.js';
import type { Complex, DType } from './dtype.js';
import { DTYPES } from './dtype.js';
import { bfloat16ToNumber, halfToNumber, numberToBfloat16, numberToHalf } from './half.js';
import { formatShape, type Shape } from './shape.js';

export type Scalar = number | bigint | boolean | string | Uint8Array | Complex;
export type NestedArray = readonly NestedValue[];
export type NestedValue = Scalar | NodeJS.TypedArray | NestedArray;

/** Elements of a tensor in JavaScript memory: a typed array, or strings. */
export type Elements = NodeJS.TypedArray | readonly (string | Uint8Array)[];

const TYPED_DTYPES: [new (n: number) => NodeJS.TypedArray, DType][] = [
  [Float32Array, 'float32'],
  [Float64Array, 'float64'],
  [Int32Array, 'int32'],
  [BigInt64Array, 'int64'],
  [BigUint64Array, 'uint64'],
  [Uint8Array, 'uint8'],
  [Uint8ClampedArray, 'uint8'],
  [Int8Array, 'int8'],
  [Int16Array, 'int16'],
  [Uint16Array, 'uint16'],
  [Uint32Array, 'uint32'],
];

export function dtypeOfTypedArray(array: NodeJS.TypedArray): DType {
  const found = TYPED_DTYPES.find(([type]) => array instanceof type);
  if (!found) throw invalid(`${array.constructor.name} has no corresponding tensor dtype`);
  return found[1];
}

export function isTypedArray(value: unknown): value is NodeJS.TypedArray {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

const isComplexValue = (value: unknown): value is Complex =>
  typeof value === 'object' && value !== null && 're' in value && 'im' in value;

/** The default dtype of a value: numbers are float32. */
export function dtypeOfValue(value: NestedValue): DType {
  if (Array.isArray(value)) return value.length === 0 ? 'float32' : dtypeOfValue(value[0]);
  if (isTypedArray(value)) return dtypeOfTypedArray(value);
  switch (typeof value) {
    case 'number':
      return 'float32';
    case 'bigint':
      return 'int64';
    case 'boolean':
      return 'bool';
    case 'string':
      return 'string';
    default:
      if (isComplexValue(value)) return 'complex64';
      throw invalid(`A tensor cannot hold ${value === null ? 'null' : typeof value}`);
  }
}

/** The shape of nested arrays; all rows must have the same shape. In string tensors a Uint8Array is one element. */
export function shapeOfValue(value: NestedValue, dtype: DType): number[] {
  if (dtype === 'string' && value instanceof Uint8Array) return [];
  if (isTypedArray(value)) return [value.length];
  if (!Array.isArray(value)) return [];
  if (value.length === 0) return [0];
  const first = shapeOfValue(value[0], dtype);
  for (let i = 1; i < value.length; i++) {
    const other = shapeOfValue(value[i], dtype);
    if (other.length !== first.length || other.some((dim, axis) => dim !== first[axis])) {
      throw invalid(
        `Rows of a tensor must have the same shape: row 0 is ${formatShape(first)}, row ${i} is ${formatShape(other)}`,
      );
    }
  }
  return [value.length, ...first];
}

/** The number of array elements per tensor element. */
export const wordsPerElement = (dtype: DType): number => (DTYPES[dtype].kind === 'complex' ? 2 : 1);

/** Flattens nested values, checking each against the range of the dtype. */
export function flattenLiteral(value: NestedValue, dtype: DType, size: number): Elements {
  if (dtype === 'string') {
    const strings: (string | Uint8Array)[] = [];
    walk(value, dtype, (leaf) => {
      if (typeof leaf !== 'string' && !(leaf instanceof Uint8Array)) throw wrongType(leaf, dtype);
      strings.push(leaf);
    });
    return strings;
  }
  const { array: ArrayType } = DTYPES[dtype];
  if (!ArrayType) throw invalid(`A ${dtype} tensor cannot be created from JavaScript values`);
  if (isTypedArray(value) && isNumberArray(value) && ['float', 'int'].includes(DTYPES[dtype].kind))
    return convertNumbers(value, dtype, ArrayType as Uint8ArrayConstructor);
  const flat = new ArrayType(size * wordsPerElement(dtype)) as NodeJS.TypedArray;
  let at = 0;
  const put = storer(dtype);
  walk(value, dtype, (leaf) => {
    at = put(flat, at, leaf);
  });
  return flat;
}

type NumberArray = Exclude<NodeJS.TypedArray, BigInt64Array | BigUint64Array>;

const isNumberArray = (array: NodeJS.TypedArray): array is NumberArray =>
  !(array instanceof BigInt64Array || array instanceof BigUint64Array);

/** Converts a typed array to floats or integers, without a call per element. */
function convertNumbers(
  from: NumberArray,
  dtype: DType,
  ArrayType: Uint8ArrayConstructor,
): NodeJS.TypedArray {
  const to = new ArrayType(from);
  if (DTYPES[dtype].kind === 'float') return to;
  // Numbers that the integers cannot represent wrap around or lose their fraction.
  for (let i = 0; i < from.length; i++)
    if (to[i] !== from[i]) throw outOfRange(from[i], dtype, ...intRange(dtype));
  checkWords(to, dtype);
  return to;
}

function walk(value: NestedValue, dtype: DType, visit: (leaf: unknown) => void): void {
  if (Array.isArray(value)) for (const child of value) walk(child, dtype, visit);
  else if (isTypedArray(value) && !(dtype === 'string' && value instanceof Uint8Array)) {
    for (const leaf of value as Iterable<unknown>) visit(leaf);
  } else visit(value);
}

type Store = (array: NodeJS.TypedArray, at: number, leaf: unknown) => number;

function storer(dtype: DType): Store {
  const set = (array: NodeJS.TypedArray, at: number, value: number | bigint): number => {
    (array as { [index: number]: number | bigint })[at] = value;
    return at + 1;
  };
  switch (DTYPES[dtype].kind) {
    case 'bool':
      return (array, at, leaf) => {
        if (typeof leaf !== 'boolean' && leaf !== 0 && leaf !== 1) throw wrongType(leaf, dtype);
        return set(array, at, leaf ? 1 : 0);
      };
    case 'bigint':
      return (array, at, leaf) => set(array, at, toBigInt(leaf, dtype));
    case 'int':
      return (array, at, leaf) => {
        const value = toNumber(leaf, dtype);
        const [low, high] = intRange(dtype);
        if (!Number.isInteger(value) || value < low || value > high) throw outOfRange(leaf, dtype, low, high);
        return set(array, at, value);
      };
    case 'half':
      return (array, at, leaf) => set(array, at, numberToHalf(toNumber(leaf, dtype)));
    case 'bfloat16':
      return (array, at, leaf) => set(array, at, numberToBfloat16(toNumber(leaf, dtype)));
    case 'complex':
      return (array, at, leaf) => {
        const { re, im } = isComplexValue(leaf) ? leaf : { re: toNumber(leaf, dtype), im: 0 };
        return set(array, set(array, at, re), im);
      };
    case 'opaque':
      throw invalid(`A ${dtype} tensor can be created from raw bytes only: pass a Uint8Array`);
    default:
      return (array, at, leaf) => set(array, at, toNumber(leaf, dtype));
  }
}

/** Whether the dtype has fewer values than its words. */
export const hasInvalidWords = (dtype: DType): boolean => dtype === 'bool' || /int[24]$/.test(dtype);

/** Checks raw words of dtypes with fewer values than their words. */
export function checkWords(words: NodeJS.TypedArray, dtype: DType): void {
  if (!hasInvalidWords(dtype)) return;
  const [low, high] = dtype === 'bool' ? [0, 1] : intRange(dtype);
  for (const word of words as Iterable<number>) {
    if (word < low || word > high) throw outOfRange(word, dtype, low, high);
  }
}

function toNumber(leaf: unknown, dtype: DType): number {
  if (typeof leaf === 'number') return leaf;
  if (typeof leaf === 'bigint') return Number(leaf);
  throw wrongType(leaf, dtype);
}

function toBigInt(leaf: unknown, dtype: DType): bigint {
  const [low, high] = dtype === 'int64' ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  if (typeof leaf === 'number' && !Number.isInteger(leaf)) {
    throw invalid(`${leaf} is not an integer, as elements of ${dtype} must be`, {
      hint: 'Round it, or use a floating-point dtype such as float32.',
    });
  }
  if (typeof leaf === 'number' && !Number.isSafeInteger(leaf)) {
    throw invalid(`${leaf} is not an integer that ${dtype} can represent exactly`, {
      hint: 'Pass a BigInt.',
    });
  }
  if (typeof leaf !== 'number' && typeof leaf !== 'bigint') throw wrongType(leaf, dtype);
  const value = BigInt(leaf);
  if (value < low || value > high) throw outOfRange(leaf, dtype, low, high);
  return value;
}

function intRange(dtype: DType): [number, number] {
  const bits = { int4: 4, uint4: 4, int2: 2, uint2: 2 }[dtype as string] ?? DTYPES[dtype].size * 8;
  const unsigned = dtype.startsWith('u') || dtype.startsWith('qu');
  return unsigned ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
}

const show = (leaf: unknown): string => {
  if (typeof leaf === 'string') return JSON.stringify(leaf);
  return isComplexValue(leaf) ? `${leaf.re}+${leaf.im}i` : String(leaf);
};
const wrongType = (leaf: unknown, dtype: DType) =>
  invalid(`${show(leaf)} cannot be an element of a ${dtype} tensor`);
const outOfRange = (leaf: unknown, dtype: DType, low: unknown, high: unknown) =>
  invalid(`${show(leaf)} is out of range for ${dtype}: must be an integer from ${low} to ${high}`);

/** Nested arrays of JavaScript values, the inverse of `flatten`. */
export function unflattenLiteral(elements: Elements, shape: Shape, dtype: DType): unknown {
  const element = elementReader(elements, dtype);
  let at = 0;
  const build = (axis: number): unknown => {
    if (axis === shape.length) return element(at++);
    return Array.from({ length: shape[axis] as number }, () => build(axis + 1));
  };
  return build(0);
}

// A byte order mark is part of the string.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads an element, by its index in row-major order, as a JavaScript value. */
export function elementReader(elements: Elements, dtype: DType): (i: number) => unknown {
  const at = (i: number) => elements[i];
  switch (DTYPES[dtype].kind) {
    case 'string':
      return (i) => {
        const value = at(i);
        return typeof value === 'string' ? value : decoder.decode(value as unknown as Uint8Array);
      };
    case 'bool':
      return (i) => at(i) !== 0;
    case 'half':
      return (i) => halfToNumber(at(i) as number);
    case 'bfloat16':
      return (i) => bfloat16ToNumber(at(i) as number);
    case 'complex':
      return (i) => ({ re: at(2 * i) as number, im: at(2 * i + 1) as number });
    default:
      return at;
  }
}
