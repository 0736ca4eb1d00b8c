/** The bytes of a string tensor in a message: a u32 length for each element, then the bytes of all elements. */
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { corrupt, type Descriptor } from './frame.js';

export function encodeStrings(tensor: Tensor): Uint8Array {
  const elements = tensor.bytes();
  let at = 4 * elements.length;
  const bytes = new Uint8Array(elements.reduce((sum, { length }) => sum + length, at));
  const view = new DataView(bytes.buffer);
  for (const [i, element] of elements.entries()) {
    view.setUint32(4 * i, element.length, true);
    bytes.set(element, at);
    at += element.length;
  }
  return bytes;
}

/** The tensor uses `memory`. */
export function decodeStringTensor({ shape, byteLength }: Descriptor, memory: ArrayBuffer): Tensor {
  const count = sizeOf(shape);
  const view = new DataView(memory);
  const elements: Uint8Array[] = [];
  let at = 4 * count;
  for (let i = 0; i < count; i++) {
    const length = view.getUint32(4 * i, true);
    if (length > byteLength - at) {
      throw corrupt(`string ${i} of a tensor has ${length} bytes; ${byteLength - at} are left`);
    }
    elements.push(new Uint8Array(memory, at, length));
    at += length;
  }
  if (at !== byteLength) throw corrupt(`${byteLength - at} bytes follow the last string of a tensor`);
  return Tensor.of(elements, { dtype: 'string', shape });
}
