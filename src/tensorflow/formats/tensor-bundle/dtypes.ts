/** The bytes that an element of each dtype takes in a data file. Strings and variants have no fixed size. */
import { DataType } from '../../../base/proto/generated/graph_pb.js';

const SIZES: ReadonlyMap<DataType, number> = new Map([
  [DataType.DT_FLOAT, 4],
  [DataType.DT_DOUBLE, 8],
  [DataType.DT_INT32, 4],
  [DataType.DT_UINT8, 1],
  [DataType.DT_INT16, 2],
  [DataType.DT_INT8, 1],
  [DataType.DT_COMPLEX64, 8],
  [DataType.DT_INT64, 8],
  [DataType.DT_BOOL, 1],
  [DataType.DT_QINT8, 1],
  [DataType.DT_QUINT8, 1],
  [DataType.DT_QINT32, 4],
  [DataType.DT_BFLOAT16, 2],
  [DataType.DT_QINT16, 2],
  [DataType.DT_QUINT16, 2],
  [DataType.DT_UINT16, 2],
  [DataType.DT_COMPLEX128, 16],
  [DataType.DT_HALF, 2],
  [DataType.DT_UINT32, 4],
  [DataType.DT_UINT64, 8],
  [DataType.DT_FLOAT8_E5M2, 1],
  [DataType.DT_FLOAT8_E4M3FN, 1],
  [DataType.DT_FLOAT8_E4M3FNUZ, 1],
  [DataType.DT_FLOAT8_E4M3B11FNUZ, 1],
  [DataType.DT_FLOAT8_E5M2FNUZ, 1],
  [DataType.DT_INT4, 1],
  [DataType.DT_UINT4, 1],
  [DataType.DT_INT2, 1],
  [DataType.DT_UINT2, 1],
  [DataType.DT_FLOAT4_E2M1FN, 1],
]);

export function elementBytes(dtype: DataType): number | undefined {
  return SIZES.get(dtype);
}

export function dtypeName(dtype: DataType): string {
  return DataType[dtype] ?? `dtype ${dtype}`;
}
