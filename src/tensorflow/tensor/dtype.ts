/** TensorFlow's element types: name, number (TF_DataType), size, and the JavaScript array that holds them. */
import { invalid } from '../../base/errors/errors.js';

type ArrayConstructor =
  | Float32ArrayConstructor
  | Float64ArrayConstructor
  | Int8ArrayConstructor
  | Int16ArrayConstructor
  | Int32ArrayConstructor
  | BigInt64ArrayConstructor
  | Uint8ArrayConstructor
  | Uint16ArrayConstructor
  | Uint32ArrayConstructor
  | BigUint64ArrayConstructor;

interface DTypeRow {
  readonly number: number;
  /** Bytes per element; 0 if elements have no fixed size. */
  readonly size: number;
  /** The typed array for the elements; complex types use two array elements each. */
  readonly array: ArrayConstructor | undefined;
  /** How a JavaScript value is converted to an element. */
  readonly kind: 'float' | 'int' | 'bigint' | 'bool' | 'half' | 'bfloat16' | 'complex' | 'string' | 'opaque';
}

const row = (
  number: number,
  size: number,
  array: ArrayConstructor | undefined,
  kind: DTypeRow['kind'],
): DTypeRow => ({ number, size, array, kind });

export const DTYPES = {
  float32: row(1, 4, Float32Array, 'float'),
  float64: row(2, 8, Float64Array, 'float'),
  int32: row(3, 4, Int32Array, 'int'),
  uint8: row(4, 1, Uint8Array, 'int'),
  int16: row(5, 2, Int16Array, 'int'),
  int8: row(6, 1, Int8Array, 'int'),
  string: row(7, 0, undefined, 'string'),
  complex64: row(8, 8, Float32Array, 'complex'),
  int64: row(9, 8, BigInt64Array, 'bigint'),
  bool: row(10, 1, Uint8Array, 'bool'),
  qint8: row(11, 1, Int8Array, 'int'),
  quint8: row(12, 1, Uint8Array, 'int'),
  qint32: row(13, 4, Int32Array, 'int'),
  bfloat16: row(14, 2, Uint16Array, 'bfloat16'),
  qint16: row(15, 2, Int16Array, 'int'),
  quint16: row(16, 2, Uint16Array, 'int'),
  uint16: row(17, 2, Uint16Array, 'int'),
  complex128: row(18, 16, Float64Array, 'complex'),
  float16: row(19, 2, Uint16Array, 'half'),
  resource: row(20, 0, undefined, 'opaque'),
  variant: row(21, 0, undefined, 'opaque'),
  uint32: row(22, 4, Uint32Array, 'int'),
  uint64: row(23, 8, BigUint64Array, 'bigint'),
  float8_e5m2: row(24, 1, Uint8Array, 'opaque'),
  float8_e4m3fn: row(25, 1, Uint8Array, 'opaque'),
  float8_e4m3fnuz: row(26, 1, Uint8Array, 'opaque'),
  float8_e4m3b11fnuz: row(27, 1, Uint8Array, 'opaque'),
  float8_e5m2fnuz: row(28, 1, Uint8Array, 'opaque'),
  int4: row(29, 1, Int8Array, 'int'),
  uint4: row(30, 1, Uint8Array, 'int'),
  int2: row(31, 1, Int8Array, 'int'),
  uint2: row(32, 1, Uint8Array, 'int'),
  float4_e2m1fn: row(33, 1, Uint8Array, 'opaque'),
} as const satisfies Record<string, DTypeRow>;

export type DType = keyof typeof DTYPES;

const BY_NUMBER = new Map<number, DType>(
  (Object.entries(DTYPES) as [DType, DTypeRow][]).map(([name, { number }]) => [number, name]),
);

/** Reference types (DT_FLOAT_REF and so on) are 100 above their base. */
const REF_OFFSET = 100;

export function dtypeFromNumber(number: number): DType {
  const name = BY_NUMBER.get(number > REF_OFFSET ? number - REF_OFFSET : number);
  if (name === undefined) throw invalid(`Unknown TensorFlow data type number ${number}`);
  return name;
}

export function dtypeNumber(dtype: DType): number {
  const found = (DTYPES as Record<string, DTypeRow>)[dtype];
  if (!found) throw invalid(`Unknown data type '${dtype}'; use one of ${Object.keys(DTYPES).join(', ')}`);
  return found.number;
}

export function dtypeRow(dtype: DType): DTypeRow {
  dtypeNumber(dtype);
  return DTYPES[dtype];
}

export const isFloating = (dtype: DType): boolean =>
  ['float', 'half', 'bfloat16'].includes(DTYPES[dtype].kind) || /^float[48]_/.test(dtype);
export const isComplex = (dtype: DType): boolean => DTYPES[dtype].kind === 'complex';
export const isInteger = (dtype: DType): boolean => ['int', 'bigint'].includes(DTYPES[dtype].kind);

/** A complex element. */
export interface Complex {
  readonly re: number;
  readonly im: number;
}

/** The JavaScript value of one element. */
export type ElementOf<D extends DType> = D extends 'int64' | 'uint64'
  ? bigint
  : D extends 'bool'
    ? boolean
    : D extends 'string'
      ? string
      : D extends 'complex64' | 'complex128'
        ? Complex
        : number;

/** The array behind `tensor.data`. Half types are raw 16-bit words; complex types interleave re and im. */
export type DataOf<D extends DType> = D extends 'float32' | 'complex64'
  ? Float32Array
  : D extends 'float64' | 'complex128'
    ? Float64Array
    : D extends 'int32' | 'qint32'
      ? Int32Array
      : D extends 'int64'
        ? BigInt64Array
        : D extends 'uint64'
          ? BigUint64Array
          : D extends 'uint32'
            ? Uint32Array
            : D extends 'int16' | 'qint16'
              ? Int16Array
              : D extends 'uint16' | 'quint16' | 'float16' | 'bfloat16'
                ? Uint16Array
                : D extends 'int8' | 'qint8' | 'int4' | 'int2'
                  ? Int8Array
                  : D extends 'string' | 'resource' | 'variant'
                    ? never
                    : Uint8Array;
