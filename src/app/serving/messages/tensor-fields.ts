/** In which field of a TensorProto the elements of each type are, and how they are encoded there. */
import type { DType } from '../../../tensorflow/tensor/dtype.js';

export type Encoding = 'raw' | 'varint' | 'strings';

export interface ValueField {
  readonly number: number;
  /** `raw`: little-endian, as in memory. */
  readonly encoding: Encoding;
}

export const DTYPE_FIELD = 1;
export const SHAPE_FIELD = 2;
export const CONTENT_FIELD = 4;

const field = (number: number, encoding: Encoding): ValueField => ({ number, encoding });
const INTS = field(7, 'varint');
const HALVES = field(13, 'varint');

export const VALUE_FIELDS: Readonly<Partial<Record<DType, ValueField>>> = {
  float32: field(5, 'raw'),
  float64: field(6, 'raw'),
  int32: INTS,
  int16: INTS,
  int8: INTS,
  uint16: INTS,
  uint8: INTS,
  qint8: INTS,
  quint8: INTS,
  qint16: INTS,
  quint16: INTS,
  qint32: INTS,
  int4: INTS,
  uint4: INTS,
  string: field(8, 'strings'),
  complex64: field(9, 'raw'),
  int64: field(10, 'varint'),
  bool: field(11, 'varint'),
  complex128: field(12, 'raw'),
  float16: HALVES,
  bfloat16: HALVES,
  uint32: field(16, 'varint'),
  uint64: field(17, 'varint'),
};
