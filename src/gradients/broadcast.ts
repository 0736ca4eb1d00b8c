/** Undoing broadcasts: a gradient is summed over the axes along which its input was stretched. */
import type { Output } from '../graph/operation.js';
import { reshape } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import { isFullyDefined, type Shape } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';

/** Reduces the gradients of `a` and `b` to the shapes of `a` and `b`. */
export function unbroadcastPair(a: Output, b: Output, gradA: Output, gradB: Output): [Output, Output] {
  if (isFullyDefined(a.shape) && isFullyDefined(b.shape)) {
    return [unbroadcastStatic(gradA, a.shape, b.shape), unbroadcastStatic(gradB, b.shape, a.shape)];
  }
  const [shapeA, shapeB] = [raw.shape(a), raw.shape(b)];
  const { r0, r1 } = raw.broadcastGradientArgs(shapeA, shapeB);
  return [reshape(raw.sum(gradA, r0), shapeA), reshape(raw.sum(gradB, r1), shapeB)];
}

/** Reduces a gradient to the shape of `x`, which was broadcast against `other`. */
export function unbroadcast(x: Output, other: Output, grad: Output): Output {
  return unbroadcastPair(x, other, grad, grad)[0];
}

function unbroadcastStatic(grad: Output, own: Shape, other: Shape): Output {
  const rank = Math.max(own.length, other.length);
  const lead = rank - own.length;
  const axes: number[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const mine = axis < lead ? 1 : (own[axis - lead] as number);
    const theirs = axis < rank - other.length ? 1 : (other[axis - (rank - other.length)] as number);
    if (axis < lead || (mine === 1 && theirs !== 1)) axes.push(axis);
  }
  if (axes.length === 0) return grad;
  return reshape(raw.sum(grad, Tensor.of(Int32Array.from(axes))), own);
}
