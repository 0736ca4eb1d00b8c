/** Helpers of the gradient functions: inputs by index, shapes as constants if known. */
import { ShoalError } from '../../base/errors/errors.js';
import type { Attrs } from '../graph/attributes.js';
import type { Operation, Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { zerosLike } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { isComplex } from '../tensor/dtype.js';
import { isFullyDefined } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { GradientFunction } from './gradient-function.js';
import type { Gradient } from './indexed-slices.js';

export type IndexType = 'int32' | 'int64';

export function inputOf(op: Operation, index: number): Output {
  const input = op.inputs[index];
  if (!input) throw new ShoalError('SHOAL_INTERNAL', `${op} has no input ${index}`, { op: op.name });
  return input;
}

/** A gradient function for ops with a single differentiable output. */
export const single =
  (
    rule: (op: Operation, grad: Output, needed: readonly boolean[]) => readonly (Gradient | null)[],
  ): GradientFunction =>
  (op, [grad], { needed }) =>
    grad ? rule(op, grad, needed) : op.inputs.map(() => null);

/** A gradient for the first input, null for the others. */
export const firstGradient = (op: Operation, gradient: Gradient): (Gradient | null)[] =>
  op.inputs.map((_, i) => (i === 0 ? gradient : null));

/** A gradient function for ops of which only the first input has a gradient. */
export const firstOnly = (rule: (op: Operation, grad: Output) => Gradient): GradientFunction =>
  single((op, grad) => firstGradient(op, rule(op, grad)));

/** The gradient of each output, with zeros for missing ones. */
export const allGrads = (op: Operation, grads: readonly (Output | undefined)[]): Output[] =>
  op.outputs.map((output, i) => grads[i] ?? zerosLike(output));

export const int32 = (value: number | readonly number[]): Tensor =>
  Tensor.of(typeof value === 'number' ? value : Int32Array.from(value), { dtype: 'int32' });

export const indices = (values: readonly number[], dtype: IndexType): Tensor =>
  dtype === 'int32' ? int32(values) : Tensor.of(BigInt64Array.from(values, BigInt), { dtype });

export const indexType = (x: Output): IndexType => (x.dtype === 'int64' ? 'int64' : 'int32');

/** The shape of `x`: a constant if known, else computed at run time. */
export const shapeOf = (x: Output, dtype: IndexType = 'int32'): Output =>
  isFullyDefined(x.shape) ? asOutput(indices(x.shape, dtype)) : raw.shape(x, { outType: dtype });

/** `grad` in the shape of `x`, which has as many elements. */
export function reshapeLike(grad: Output, x: Output): Output {
  const [from, to] = [grad.shape, x.shape];
  if (isFullyDefined(from) && isFullyDefined(to) && from.join() === to.join()) return grad;
  return raw.reshape(grad, shapeOf(x));
}

/** All axes of `x`, for a reduction to a scalar. */
export const allAxes = (x: Output): Operand =>
  x.rank === null
    ? raw.range(int32(0), raw.rank(x), int32(1))
    : int32(Array.from({ length: x.rank }, (_, axis) => axis));

/** Complex gradients use the conjugate of the derivative. */
export const conjugated = (x: Output): Output => (isComplex(x.dtype) ? raw.conj(x) : x);

/** Attributes of the op under the same names. */
export const sameAttrs = (op: Operation, names: readonly string[]): Attrs =>
  Object.fromEntries(names.map((name) => [name, op.attr(name)]));

const MOST_READ = 64;

/** The elements of an integer constant (a scalar or a short vector); undefined for anything else. */
export function constantInts(x: Output): number[] | undefined {
  if (x.op.type !== 'Const' || (x.dtype !== 'int32' && x.dtype !== 'int64')) return undefined;
  const size = x.rank === 0 ? 1 : x.rank === 1 ? x.shape?.[0] : undefined;
  if (size === undefined || size === null || size > MOST_READ) return undefined;
  const value = x.op.nodeDef().attr.value?.value;
  if (value?.case !== 'tensor') return undefined;
  const { tensorContent, intVal, int64Val } = value.value;
  const listed = x.dtype === 'int32' ? intVal : int64Val.map(Number);
  if (tensorContent.length === 0) {
    // A list that is too short repeats its last element; an empty list means zeros.
    return Array.from({ length: size }, (_, i) => listed[Math.min(i, listed.length - 1)] ?? 0);
  }
  const view = new DataView(tensorContent.buffer, tensorContent.byteOffset, tensorContent.byteLength);
  return Array.from({ length: size }, (_, i) =>
    x.dtype === 'int32' ? view.getInt32(i * 4, true) : Number(view.getBigInt64(i * 8, true)),
  );
}
