/** Bitwise equality of tensors; strings by value. */
import type { Tensor } from '../../src/tensorflow/tensor/tensor.js';

export function sameBits(a: Tensor, b: Tensor): boolean {
  if (a.dtype === 'string') return JSON.stringify(a.toArray()) === JSON.stringify(b.toArray());
  const bytes = ({ data }: Tensor) => {
    const view = data as unknown as NodeJS.TypedArray;
    return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
  };
  return bytes(a).equals(bytes(b));
}
