/** A case: one op, its inputs and attributes. The helpers keep the tables of cases short. */
import type { AttrValue } from '../../src/tensorflow/graph/attributes.js';
import { type DType, isFloating } from '../../src/tensorflow/tensor/dtype.js';
import { type Shape, sizeOf } from '../../src/tensorflow/tensor/shape.js';
import { Tensor } from '../../src/tensorflow/tensor/tensor.js';

export interface OpCase {
  readonly op: string;
  readonly inputs: readonly (Tensor | readonly Tensor[])[];
  readonly attrs: Readonly<Record<string, AttrValue>>;
  /** The largest difference, relative to max(value, 1). Default: depends on the dtype. */
  readonly tolerance?: number;
  /** The number of outputs to compare; the values of the others are undefined. Default: all. */
  readonly computed?: number;
}

export function op(
  name: string,
  inputs: readonly (Tensor | readonly Tensor[])[] = [],
  attrs: Readonly<Record<string, AttrValue>> = {},
  tolerance?: number,
): OpCase {
  return { op: name, inputs, attrs, ...(tolerance === undefined ? {} : { tolerance }) };
}

type Value = Parameters<typeof Tensor.of>[0];

/** A tensor from a literal. */
export const t = (value: Value, dtype: DType = 'float32'): Tensor => Tensor.of(value, { dtype });
export const i32 = (value: Value): Tensor => t(value, 'int32');
export const i64 = (value: Value): Tensor => t(value, 'int64');
export const bools = (value: Value): Tensor => t(value, 'bool');
export const text = (value: Value): Tensor => t(value, 'string');

/** Reproducible pseudo-random numbers. */
export function noise(shape: Shape, low = -2, high = 2, dtype: DType = 'float32', seed = 1): Tensor {
  let state = (seed * 2654435761) >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return low + (state / 2 ** 32) * (high - low);
  };
  const fractional = isFloating(dtype) || dtype.startsWith('complex');
  const values = Array.from({ length: sizeOf(shape) }, () => {
    if (dtype.startsWith('complex')) return { re: next(), im: next() };
    if (dtype === 'bool') return next() > (low + high) / 2;
    return fractional ? next() : Math.floor(next());
  });
  return Tensor.of(values, { dtype, shape });
}
