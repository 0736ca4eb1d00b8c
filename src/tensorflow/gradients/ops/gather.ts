/**
 * Gradients of gathers and scatters. A gather of rows has a sparse gradient, so that its cost does not depend on the
 * size of the table; elements gathered along other axes are scattered back.
 */
import type { Operation, Output } from '../../graph/operation.js';
import { asOutput } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { isFullyDefined, type PartialShape } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import { DISTINCT_ROWS } from '../../variables/variable.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { type Gradient, IndexedSlices } from '../indexed-slices.js';
import {
  allGrads,
  constantInts,
  firstOnly,
  indexType,
  inputOf,
  int32,
  reshapeLike,
  shapeOf,
  single,
} from '../pieces.js';

/** The gradient of gathered rows: one slice per index. */
export function rowGradient(
  grad: Output,
  indices: Output,
  denseShape: Output,
  isDistinct = false,
): IndexedSlices {
  if (indices.rank === 1) return new IndexedSlices(grad, indices, denseShape, isDistinct);
  const flat = raw.reshape(indices, int32([-1]));
  const rowShape = raw.slice(denseShape, int32([1]), int32([-1]));
  const count = raw.expandDims(raw.size(indices, { outType: indexType(denseShape) }), int32(0));
  const values = raw.reshape(grad, raw.concatV2([count, rowShape], int32(0)));
  return new IndexedSlices(values, flat, denseShape, isDistinct);
}

/** A known shape is a constant: reading it from a variable on another task would add traffic to every step. */
function variableShape(handle: Output): Output {
  const shape = handle.op.type === 'VarHandleOp' ? (handle.op.attr('shape') as PartialShape) : null;
  return shape !== null && isFullyDefined(shape)
    ? asOutput(Tensor.of(BigInt64Array.from(shape, BigInt)))
    : raw.variableShape(handle, { outType: 'int64' });
}

/** The shape of the source of a gather as [batch, outer, axis, inner]. */
interface Blocks {
  readonly shape: Output;
  readonly batch: Output;
  readonly outer: Output;
  readonly size: Output;
}

function blocksOf(shape: Output, axis: Output, batchDims: number): Blocks {
  const rank = raw.size(shape);
  const at = raw.floorMod(raw.cast(axis, { dstT: 'int32' }), rank);
  const product = (from: Output, count: Output): Output =>
    raw.prod(raw.slice(shape, raw.expandDims(from, int32(0)), raw.expandDims(count, int32(0))), int32(0));
  const start = raw.identity(int32(batchDims));
  return {
    shape,
    batch: product(raw.identity(int32(0)), start),
    outer: product(start, raw.sub(at, start)),
    size: raw.gatherV2(shape, at, int32(0)),
  };
}

/** Adds each gradient to the element from which it was gathered, along any axis, with batches. */
function scatterAlong(grad: Output, indices: Output, { shape, batch, outer, size }: Blocks): Output {
  const dtype = indexType(indices);
  const as = (x: Output): Output => raw.cast(x, { dstT: dtype });
  const groups = raw.mul(batch, outer);
  // One row for each (batch, outer, index), numbered by the position of that element in the source.
  const each = raw.floorDiv(raw.size(indices), raw.maximum(batch, int32(1)));
  const picks = raw.reshape(indices, raw.pack([batch, int32(1), each]));
  const starts = raw.mul(raw.range(int32(0), groups, int32(1)), size);
  const offsets = raw.reshape(as(starts), raw.pack([batch, outer, int32(1)]));
  const ids = raw.reshape(raw.addV2(picks, offsets), int32([-1]));
  const inner = raw.floorDiv(raw.prod(shape, int32(0)), raw.maximum(raw.mul(groups, size), int32(1)));
  const rows = raw.reshape(grad, raw.pack([raw.size(ids), inner]));
  return raw.reshape(raw.unsortedSegmentSum(rows, ids, raw.mul(groups, size)), shape);
}

function batchDimsOf(op: Operation, indices: Output): number {
  const batchDims = Number(op.attr('batch_dims') ?? 0);
  return batchDims < 0 ? batchDims + (indices.rank ?? 0) : batchDims;
}

const gatherV2 = firstOnly((op, grad) => {
  const [params, indices, axis] = op.inputs as [Output, Output, Output];
  const batchDims = batchDimsOf(op, indices);
  if (constantInts(axis)?.[0] === 0 && batchDims === 0) return rowGradient(grad, indices, shapeOf(params));
  const whole = scatterAlong(grad, indices, blocksOf(shapeOf(params), axis, batchDims));
  return whole.setShape(params.shape);
});

const resourceGather = firstOnly((op, grad) => {
  const [handle, indices] = op.inputs as [Output, Output];
  const batchDims = batchDimsOf(op, indices);
  if (batchDims === 0) {
    return rowGradient(grad, indices, variableShape(handle), op.attr(DISTINCT_ROWS) === true);
  }
  const shape = raw.variableShape(handle, { outType: 'int32' });
  return scatterAlong(grad, indices, blocksOf(shape, raw.identity(int32(batchDims)), batchDims));
});

/** Complete rows stay slices; single elements are scattered back. */
function pointGradient(grad: Output, indices: Output, shape: Output): Gradient {
  if (indices.rank === 2 && indices.shape?.[1] === 1) {
    return new IndexedSlices(grad, raw.squeeze(indices, { squeezeDims: [1] }), shape);
  }
  return raw.scatterNd(indices, grad, shape);
}

/** All elements of the tensor and of the updates that equal the extreme share the gradient equally. */
const scatterExtreme = single((op, grad) => {
  const [x, indices, updates] = op.inputs as [Output, Output, Output];
  const output = op.output();
  const held = (a: Output, b: Output): Output => raw.cast(raw.equal(a, b), { dstT: grad.dtype });
  const kept = held(x, output);
  const won = held(updates, raw.gatherNd(output, indices));
  const share = raw.realDiv(grad, raw.tensorScatterAdd(kept, indices, won));
  return [raw.mul(share, kept), null, raw.mul(raw.gatherNd(share, indices), won)];
});

const stitch = single((op, grad) => {
  const half = op.inputs.length / 2;
  return op.inputs.map((_, i) => (i < half ? null : raw.gatherV2(grad, inputOf(op, i - half), int32(0))));
});

const partition: GradientFunction = (op, grads) => {
  const [data, labels] = op.inputs as [Output, Output];
  const numPartitions = op.attr('num_partitions') as number;
  const places = raw.reshape(raw.range(int32(0), raw.size(labels), int32(1)), shapeOf(labels));
  const whence = raw.dynamicPartition(places, labels, { numPartitions });
  return [reshapeLike(raw.parallelDynamicStitch(whence, allGrads(op, grads)), data), null];
};

export const gatherGradients: GradientTable = {
  Gather: firstOnly((op, grad) => rowGradient(grad, inputOf(op, 1), shapeOf(inputOf(op, 0)))),
  GatherV2: gatherV2,
  GatherNd: firstOnly((op, grad) => {
    const [params, indices] = op.inputs as [Output, Output];
    return pointGradient(grad, indices, shapeOf(params, indexType(indices)));
  }),
  ResourceGather: resourceGather,
  ResourceGatherNd: firstOnly((op, grad) => {
    const [handle, indices] = op.inputs as [Output, Output];
    return pointGradient(grad, indices, raw.variableShape(handle, { outType: indexType(indices) }));
  }),

  ScatterNd: single((op, grad) => [null, raw.gatherNd(grad, inputOf(op, 0)), null]),
  TensorScatterUpdate: single((op, grad) => {
    const [, indices, updates] = op.inputs as [Output, Output, Output];
    return [
      raw.tensorScatterUpdate(grad, indices, raw.zerosLike(updates)),
      null,
      raw.gatherNd(grad, indices),
    ];
  }),
  TensorScatterAdd: single((op, grad) => [grad, null, raw.gatherNd(grad, inputOf(op, 1))]),
  TensorScatterSub: single((op, grad) => [grad, null, raw.neg(raw.gatherNd(grad, inputOf(op, 1)))]),
  TensorScatterMax: scatterExtreme,
  TensorScatterMin: scatterExtreme,
  ScatterNdNonAliasingAdd: single((op, grad) => [grad, null, raw.gatherNd(grad, inputOf(op, 1))]),

  DynamicStitch: stitch,
  ParallelDynamicStitch: stitch,
  DynamicPartition: partition,
};
