/** Gradients of reductions and cumulative sums. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { isFullyDefined, sizeOf } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import {
  conjugated,
  constantInts,
  firstOnly,
  inputOf,
  int32,
  reshapeLike,
  shapeOf,
  single,
} from '../pieces.js';

/** The axes of a reduction, non-negative and ascending, if rank and axes are known. */
function knownAxes(op: Operation): number[] | undefined {
  const { rank } = inputOf(op, 0);
  const axes = constantInts(inputOf(op, 1));
  if (rank === null || axes === undefined) return undefined;
  return [...new Set(axes.map((axis) => (axis < 0 ? axis + rank : axis)))].sort((a, b) => a - b);
}

/** The reduced tensor with size 1 along the removed axes: it broadcasts against the input. */
function kept(op: Operation, reduced: Output): Output {
  if (op.attr('keep_dims')) return reduced;
  const x = inputOf(op, 0);
  const axes = knownAxes(op);
  if (axes === undefined) return raw.reshape(reduced, keptShape(x, inputOf(op, 1)));
  // Leading axes are restored by broadcasting.
  if (axes.every((axis, i) => axis === i)) return reduced;
  if (isFullyDefined(x.shape)) {
    return raw.reshape(reduced, int32(x.shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim))));
  }
  return axes.reduce<Output>((grown, axis) => raw.expandDims(grown, int32(axis)), reduced);
}

/** The shape of `x` with 1 along the axes. */
function keptShape(x: Output, axes: Output): Output {
  const rank = raw.rank(x);
  const asInt32 = axes.dtype === 'int32' ? axes : raw.cast(axes, { dstT: 'int32' });
  const list = raw.reshape(raw.floorMod(raw.addV2(asInt32, rank), rank), int32([-1]));
  return raw.dynamicStitch(
    [raw.range(int32(0), rank, int32(1)), list],
    [raw.shape(x), raw.fill(raw.shape(list), int32(1))],
  );
}

/** Broadcasts a gradient to the shape of the input. */
const spread = (op: Operation, grad: Output): Output => {
  const x = inputOf(op, 0);
  const isWhole =
    isFullyDefined(x.shape) && isFullyDefined(grad.shape) && x.shape.join() === grad.shape.join();
  return isWhole ? grad : raw.broadcastTo(grad, shapeOf(x));
};

/** The number of input elements per output element, as a scalar of the gradient's dtype. */
function groupSize(op: Operation, { dtype }: Output): Output | Tensor {
  const [x, y] = [inputOf(op, 0), op.output()];
  if (isFullyDefined(x.shape) && isFullyDefined(y.shape)) {
    return Tensor.of(Math.floor(sizeOf(x.shape) / Math.max(1, sizeOf(y.shape))), { dtype });
  }
  const size = (of: Output) => raw.size(of, { outType: 'int64' });
  const count = raw.floorDiv(size(x), raw.maximum(size(y), Tensor.of(1n)));
  return raw.cast(count, { dstT: dtype });
}

/** All elements that equal the extreme share the gradient. */
const extreme = firstOnly((op, grad) => {
  const x = inputOf(op, 0);
  const isExtreme = raw.cast(raw.equal(x, kept(op, op.output())), { dstT: grad.dtype });
  const count = raw.sum(isExtreme, inputOf(op, 1), { keepDims: true });
  return raw.mul(raw.realDiv(isExtreme, count), kept(op, grad));
});

/** The product of all other elements, from cumulative products from both ends: also correct for zeros. */
function productsOfOthers(line: Output): Output {
  const axis = int32(0);
  return raw.mul(
    raw.cumprod(line, axis, { exclusive: true }),
    raw.cumprod(line, axis, { exclusive: true, reverse: true }),
  );
}

const product = firstOnly((op, grad) => {
  const x = inputOf(op, 0);
  const axes = knownAxes(op);
  const isAll = axes !== undefined && axes.length === x.rank;
  const others = isAll
    ? reshapeLike(productsOfOthers(raw.reshape(x, int32([-1]))), x)
    : productsAlongAxes(x, inputOf(op, 1));
  return raw.mul(conjugated(others), kept(op, grad));
});

/** Moves the reduced axes to the front and merges them; the inverse undoes both. */
function productsAlongAxes(x: Output, axes: Output): Output {
  const rank = raw.rank(x);
  const asInt32 = axes.dtype === 'int32' ? axes : raw.cast(axes, { dstT: 'int32' });
  const reduced = raw.reshape(raw.floorMod(raw.addV2(asInt32, rank), rank), int32([-1]));
  const { out: rest } = raw.listDiff(raw.range(int32(0), rank, int32(1)), reduced, {
    outIdx: 'int32',
  });
  const order = raw.concatV2([reduced, rest], int32(0));
  const shape = raw.shape(x);
  const count = (of: Output) => raw.prod(raw.gatherV2(shape, of, int32(0)), int32([0]));
  const moved = raw.transpose(x, order);
  const lines = raw.reshape(moved, raw.pack([count(reduced), count(rest)]));
  const others = raw.reshape(productsOfOthers(lines), raw.shape(moved));
  return raw.transpose(others, raw.invertPermutation(order));
}

const runningAttrs = (op: Operation) => ({
  exclusive: op.attr('exclusive') as boolean,
  reverse: !op.attr('reverse'),
});

/** The logarithms of the positive and of the negative part of the gradient are accumulated separately. */
const runningLogSumExp: GradientFunction = firstOnly((op, grad) => {
  const [x, axis] = [inputOf(op, 0), inputOf(op, 1)];
  const lowest = grad.dtype === 'float64' ? -Number.MAX_VALUE : LOWEST[grad.dtype as keyof typeof LOWEST];
  const part = (isOfPart: Output, size: Output): Output => {
    const logs = raw.selectV2(isOfPart, raw.log(size), lowest);
    const running = raw.cumulativeLogsumexp(raw.sub(logs, op.output()), axis, runningAttrs(op));
    return raw.exp(raw.addV2(running, x));
  };
  return raw.sub(part(raw.greater(grad, 0), grad), part(raw.less(grad, 0), raw.neg(grad)));
});

/** The most negative finite number of a type. */
const LOWEST = { float32: -3.4028234663852886e38, float16: -65504, bfloat16: -3.3895313892515355e38 };

export const reductionGradients: GradientTable = {
  All: null,
  Any: null,
  ArgMax: null,
  ArgMin: null,
  Cumprod: firstOnly((op, grad) => {
    const [x, axis] = [inputOf(op, 0), inputOf(op, 1)];
    const running = raw.cumsum(raw.mul(op.output(), grad), axis, runningAttrs(op));
    return raw.divNoNan(running, x);
  }),
  Cumsum: firstOnly((op, grad) => raw.cumsum(grad, inputOf(op, 1), runningAttrs(op))),
  CumulativeLogsumexp: runningLogSumExp,
  EuclideanNorm: firstOnly((op, grad) => raw.mul(inputOf(op, 0), kept(op, raw.realDiv(grad, op.output())))),
  L2Loss: single((op, grad) => [raw.mul(inputOf(op, 0), grad)]),
  Max: extreme,
  // The division comes first: the reduced gradient is the smaller one.
  Mean: firstOnly((op, grad) => spread(op, kept(op, raw.realDiv(grad, groupSize(op, grad))))),
  Min: extreme,
  Prod: product,
  Sum: firstOnly((op, grad) => spread(op, kept(op, grad))),
};
