/** Undoes broadcasts: sums a gradient over the axes along which its input was broadcast. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { isFullyDefined, type PartialShape } from '../../tensor/shape.js';
import type { GradientFunction } from '../gradient-function.js';
import { int32 } from '../pieces.js';

/** Reduces the gradients of `a` and `b`, which were broadcast against each other, to their shapes. */
export function unbroadcastPair(
  a: Output,
  b: Output,
  gradA: Output | null,
  gradB: Output | null,
): [Output | null, Output | null] {
  if (a === b) return [gradA, gradB];
  const [axesA, axesB] = [stretchedAxes(a.shape, b.shape), stretchedAxes(b.shape, a.shape)];
  const needsA = gradA !== null && axesA === undefined;
  const needsB = gradB !== null && axesB === undefined;
  if (!needsA && !needsB) {
    return [gradA && sumOver(gradA, axesA as Stretched, a), gradB && sumOver(gradB, axesB as Stretched, b)];
  }
  const [shapeA, shapeB] = [raw.shape(a), raw.shape(b)];
  const { r0, r1 } = raw.broadcastGradientArgs(shapeA, shapeB);
  return [
    gradA && (axesA ? sumOver(gradA, axesA, a) : raw.reshape(raw.sum(gradA, r0), shapeA)),
    gradB && (axesB ? sumOver(gradB, axesB, b) : raw.reshape(raw.sum(gradB, r1), shapeB)),
  ];
}

/** Reduces a gradient to the shape of `x`, which was broadcast against `other`. */
export function unbroadcast(x: Output, other: Output, grad: Output): Output {
  return unbroadcastPair(x, other, grad, null)[0] as Output;
}

/** The rule of a binary op, for the broadcast shape; returns null for gradients that are not needed. */
export type BinaryRule = (
  a: Output,
  b: Output,
  grad: Output,
  needed: readonly boolean[],
  op: Operation,
) => readonly [Output | null, Output | null];

/** The gradient function of a broadcasting binary op. */
export const binary =
  (rule: BinaryRule): GradientFunction =>
  (op, [grad], { needed }) => {
    if (!grad) return [null, null];
    const [a, b] = op.inputs as [Output, Output];
    return unbroadcastPair(a, b, ...rule(a, b, grad, needed, op));
  };

interface Stretched {
  /** Axes that the input does not have. */
  readonly lead: readonly number[];
  /** Axes of size 1 in the input. */
  readonly ones: readonly number[];
}

/**
 * The axes of the result along which `own` was broadcast to `other`; undefined if the static shapes do
 * not determine them. An unknown size against 1 is not broadcast; 1 against an unknown size can be summed anyway.
 */
function stretchedAxes(own: PartialShape, other: PartialShape): Stretched | undefined {
  if (own === null || other === null) return undefined;
  const rank = Math.max(own.length, other.length);
  const lead = rank - own.length;
  const ones: number[] = [];
  for (let axis = lead; axis < rank; axis++) {
    const mine = own[axis - lead];
    const theirs = axis < rank - other.length ? 1 : other[axis - (rank - other.length)];
    if (mine === null && theirs !== 1) return undefined;
    if (mine === 1 && theirs !== 1) ones.push(axis);
  }
  return { lead: Array.from({ length: lead }, (_, axis) => axis), ones };
}

function sumOver(grad: Output, { lead, ones }: Stretched, own: Output): Output {
  if (lead.length > 0 && ones.length > 0 && isFullyDefined(own.shape)) {
    return raw.reshape(raw.sum(grad, int32([...lead, ...ones])), int32(own.shape));
  }
  const trimmed = lead.length > 0 ? raw.sum(grad, int32(lead)) : grad;
  const axes = ones.map((axis) => axis - lead.length);
  return axes.length > 0 ? raw.sum(trimmed, int32(axes), { keepDims: true }) : trimmed;
}
