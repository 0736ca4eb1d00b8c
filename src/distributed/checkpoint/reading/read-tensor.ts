/** Reads a tensor, or a slice of one, from a bundle into TensorFlow's memory. */
import type { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import type { TensorSlice } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import type { Shape } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';

export interface WantedTensor {
  readonly key: string;
  readonly dtype: DType;
  /** The shape of the slice, if one is given. */
  readonly shape: Shape;
  readonly slice?: TensorSlice;
}

/** Reads and verifies; the caller disposes the tensor. */
export async function readTensor(
  bundle: BundleReader,
  { key, dtype, shape, slice }: WantedTensor,
  signal?: AbortSignal,
): Promise<Tensor> {
  if (dtype === 'string')
    return Tensor.of(await bundle.readStrings(key, { slice, signal }), { dtype, shape });
  const tensor = Tensor.allocate(shape, dtype);
  const into = {
    length: tensor.byteLength,
    set: (bytes: Uint8Array, offset: number) => tensor.setBytes(bytes, offset),
  };
  await bundle.read(key, { slice, into, signal });
  return tensor;
}
