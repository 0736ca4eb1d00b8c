/**
 * The gradient of Einsum, for one or two operands. With "ab,bc->ac" the gradient of the first is
 * "ac,bc->ab" of the incoming gradient and the second. Labels that only one operand has were summed
 * away: the gradient is constant along them. A label that an operand has twice selects a diagonal: there
 * the gradient is placed on a diagonal again. An ellipsis stands for batch axes, which broadcast.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { isFullyDefined } from '../../tensor/shape.js';
import type { GradientFunction } from '../gradient-function.js';
import { conjugated, int32, shapeOf } from '../pieces.js';

const ELLIPSIS = '...';

/** The labels of one operand, including the ellipsis. */
const labelsOf = (subscripts: string): string[] => subscripts.match(/\.\.\.|[A-Za-z]/g) ?? [];

export const einsumGradient: GradientFunction = (op, [grad], { needed }) => {
  if (!grad) return op.inputs.map(() => null);
  const equation = (op.attr('equation') as string).replaceAll(' ', '');
  const [left, right] = equation.split('->') as [string, string];
  const operands = left.split(',').map(labelsOf);
  const result = labelsOf(right);
  return op.inputs.map((_, i) => (needed[i] ? operandGradient(op, grad, i, operands, result) : null));
};

function operandGradient(
  op: Operation,
  grad: Output,
  index: number,
  operands: readonly (readonly string[])[],
  result: readonly string[],
): Output {
  const x = op.inputs[index] as Output;
  const own = operands[index] as readonly string[];
  const other = op.inputs.length === 2 ? (op.inputs[1 - index] as Output) : undefined;
  const otherLabels = other ? (operands[1 - index] as readonly string[]) : [];
  if (own.includes(ELLIPSIS) && !result.includes(ELLIPSIS)) {
    throw new ShoalError('SHOAL_NO_GRADIENT', `Einsum '${op.name}' sums over an ellipsis`, {
      op: op.name,
      hint: 'Use explicit labels for the summed axes.',
    });
  }
  const unique = [...new Set(own)];
  const isElsewhere = (label: string) => result.includes(label) || otherLabels.includes(label);
  const shared = unique.filter(isElsewhere);
  const lost = unique.filter((label) => !isElsewhere(label));

  const from = other ? [result, otherLabels] : [result];
  const inputs = other ? [grad, conjugated(other)] : [grad];
  // Batch axes that only the other operand has are summed separately: Einsum does not sum over an ellipsis.
  const hasForeignBatch = !own.includes(ELLIPSIS) && result.includes(ELLIPSIS);
  const core = hasForeignBatch
    ? sumFront(einsum(from, [ELLIPSIS, ...shared], inputs), shared.length)
    : einsum(from, shared, inputs);
  const spread =
    lost.length > 0
      ? spreadOver(
          core,
          x,
          lost.map((label) => own.indexOf(label)),
          own,
        )
      : core;
  const laid = einsum([[...lost, ...shared]], own, [spread]);
  return other && own.includes(ELLIPSIS) ? unbroadcastEllipsis(laid, x, own) : laid;
}

/** Adds an Einsum op, or none if it would be the identity. */
function einsum(
  from: readonly (readonly string[])[],
  to: readonly string[],
  inputs: readonly Output[],
): Output {
  if (inputs.length === 1 && from[0]?.join() === to.join()) return inputs[0] as Output;
  return raw.einsum(inputs, {
    equation: `${from.map((labels) => labels.join('')).join(',')}->${to.join('')}`,
  });
}

/** Sums over all axes but the last `count`. */
function sumFront(x: Output, count: number): Output {
  const axes =
    x.rank === null
      ? raw.range(int32(0), raw.sub(raw.rank(x), int32(count)), int32(1))
      : int32(Array.from({ length: x.rank - count }, (_, axis) => axis));
  return raw.sum(x, axes);
}

/** Broadcasts `core` over additional leading axes, with the sizes that `x` has at `places`. */
function spreadOver(core: Output, x: Output, places: readonly number[], own: readonly string[]): Output {
  if (isFullyDefined(x.shape) && isFullyDefined(core.shape)) {
    const { shape } = x;
    const sizes = places.map((place) => shape.at(axisOf(place, own)) as number);
    return raw.broadcastTo(core, int32([...sizes, ...core.shape]));
  }
  // Axes after an ellipsis are counted from the end.
  const rank = raw.rank(x);
  const axes = raw.floorMod(raw.addV2(int32(places.map((place) => axisOf(place, own))), rank), rank);
  const sizes = raw.gatherV2(raw.shape(x), axes, int32(0));
  return raw.broadcastTo(core, raw.concatV2([sizes, raw.shape(core)], int32(0)));
}

/** The axis of a label: negative (from the end) after the ellipsis. */
function axisOf(place: number, own: readonly string[]): number {
  const dots = own.indexOf(ELLIPSIS);
  return dots >= 0 && place > dots ? place - own.length : place;
}

/** Sums over the batch axes along which `x` was broadcast, wherever the ellipsis is in `own`. */
function unbroadcastEllipsis(grad: Output, x: Output, own: readonly string[]): Output {
  const before = own.indexOf(ELLIPSIS);
  const after = own.length - before - 1;
  if (isFullyDefined(x.shape) && isFullyDefined(grad.shape) && x.shape.join() === grad.shape.join())
    return grad;
  const batch = (of: Output) =>
    raw.stridedSlice(shapeOf(of), int32([before]), int32([-after]), int32([1]), {
      endMask: after === 0 ? 1 : 0,
    });
  const { r0 } = raw.broadcastGradientArgs(batch(x), batch(grad));
  return raw.reshape(raw.sum(grad, raw.addV2(r0, int32(before))), shapeOf(x));
}
