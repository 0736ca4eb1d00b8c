/**
 * A tensor as a serialized TensorProto. Values are in the typed fields, as TensorFlow Serving answers by default: many
 * clients read `float_val` directly. Packed floating-point values are the bytes of the tensor.
 */
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { ServingError } from '../status.js';
import { DTYPE_FIELD, SHAPE_FIELD, VALUE_FIELDS } from './tensor-fields.js';
import { writeVarints } from './varints.js';
import { bytesField, intField, type Parts } from './wire-writer.js';

/** The parts are views of the tensor's memory: they are to be joined before it is disposed. */
export function writeTensor(tensor: Tensor, name: string): Parts {
  const { dtype } = tensor;
  const field = VALUE_FIELDS[dtype];
  if (!field) throw new ServingError('UNIMPLEMENTED', `Output ${name} is ${dtype}, which cannot be sent`);
  const dimensions = tensor.shape.flatMap((size) => bytesField(2, ...intField(1, size)));
  const head = [...intField(DTYPE_FIELD, dtypeNumber(dtype)), ...bytesField(SHAPE_FIELD, ...dimensions)];
  if (tensor.size === 0) return head;
  switch (field.encoding) {
    case 'strings':
      return [...head, ...tensor.bytes().flatMap((bytes) => bytesField(field.number, bytes))];
    case 'varint':
      return [...head, ...bytesField(field.number, writeVarints(tensor.data as NodeJS.TypedArray))];
    case 'raw': {
      const { buffer, byteOffset, byteLength } = tensor.data as NodeJS.TypedArray;
      return [...head, ...bytesField(field.number, new Uint8Array(buffer, byteOffset, byteLength))];
    }
  }
}
