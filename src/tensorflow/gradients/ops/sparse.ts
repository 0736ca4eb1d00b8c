/**
 * Gradients of ops on sparse tensors (indices, values, shape), for the values and for the dense tensors
 * that they are combined with.
 */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { type Gradient, IndexedSlices } from '../indexed-slices.js';
import { allAxes, conjugated, inputOf, int32, reshapeLike, shapeOf, single } from '../pieces.js';

const int64 = (value: bigint): Tensor => Tensor.of(value, { dtype: 'int64' });
const column = (x: Output, at: number): Output =>
  raw.squeeze(raw.slice(x, int32([0, at]), int32([-1, 1])), { squeezeDims: [1] });
const rows = (x: Output, places: Output): Output => raw.gatherV2(x, places, int32(0));

/** 1 for each kept axis, 0 for each summed one. */
function keptAxes(shape: Output, axes: Output): Output {
  const rank = raw.size(shape);
  const places = raw.reshape(raw.floorMod(axes, rank), int32([-1, 1]));
  const gone = raw.fill(raw.slice(raw.shape(places), int32([0]), int32([1])), int64(0n));
  return raw.tensorScatterUpdate(raw.onesLike(shape), places, gone);
}

/** The elements of a dense tensor, with size 1 along some axes, that correspond to the indices. */
function spread(dense: Output, indices: Output, kept: Output): Output {
  return raw.gatherNd(dense, raw.mul(indices, kept));
}

const reduceSum = single((op, grad) => {
  const [indices, , shape, axes] = op.inputs as [Output, Output, Output, Output];
  const kept = keptAxes(shape, axes);
  const reduced = raw.addV2(raw.mul(shape, kept), raw.sub(raw.onesLike(kept), kept));
  return [null, spread(raw.reshape(grad, reduced), indices, kept), null, null];
});

const softmax = single((op, grad) => {
  const [indices, , shape] = op.inputs as [Output, Output, Output];
  const output = op.output();
  const last = raw.identity(int32([-1]));
  const sums = raw.sparseReduceSum(indices, raw.mul(grad, output), shape, last, { keepDims: true });
  const mean = spread(sums, indices, keptAxes(shape, last));
  return [null, raw.mul(raw.sub(grad, mean), output), null];
});

/** Whether this is the value read from a variable: a table, possibly a huge one. */
function isTable(x: Output): boolean {
  switch (x.op.type) {
    case 'ReadVariableOp':
      return true;
    case 'Identity':
      return isTable(inputOf(x.op, 0));
    case 'ConcatV2':
      return x.op.inputs.some((input) => isTable(input));
    default:
      return false;
  }
}

const denseMatMul = single((op, grad, [, forValues, , forDense]) => {
  const [indices, values, shape, dense] = op.inputs as [Output, Output, Output, Output];
  const adjointA = op.attr('adjoint_a') === true;
  const adjointB = op.attr('adjoint_b') === true;
  const [row, col] = [column(indices, 0), column(indices, 1)];
  const [outer, inner] = adjointA ? [col, row] : [row, col];
  return [null, forValues ? valueGradient() : null, null, forDense ? denseGradient() : null];

  /** For each value, the product of a row of the gradient and a row of the dense matrix. */
  function valueGradient(): Output {
    const others = adjointB
      ? rows(raw.transpose(dense, int32([1, 0])), inner)
      : conjugated(rows(dense, inner));
    const product = raw.sum(raw.mul(rows(grad, outer), others), int32(1));
    return adjointA ? conjugated(product) : product;
  }

  function denseGradient(): Gradient {
    if (isTable(dense) && !adjointB) {
      const weights = raw.expandDims(adjointA ? values : conjugated(values), int32(1));
      return new IndexedSlices(raw.mul(rows(grad, outer), weights), inner, shapeOf(dense, 'int64'));
    }
    const whole = raw.sparseTensorDenseMatMul(indices, values, shape, grad, { adjointA: !adjointA });
    return adjointB ? raw.conjugateTranspose(whole, int32([1, 0])) : whole;
  }
});

/** Values multiplied or divided by the dense elements at their indices; the dense tensor broadcasts. */
const cwise = (rule: (grad: Output, x: Output, y: Output) => readonly [Output, Output]): GradientFunction =>
  single((op, grad) => {
    const [indices, values, shape, dense] = op.inputs as [Output, Output, Output, Output];
    if (dense.rank === 0) {
      const [forValues, each] = rule(grad, values, dense);
      return [null, forValues, null, raw.sum(each, allAxes(each))];
    }
    const places = broadcastPlaces(indices, shape, dense);
    const [forValues, atPlaces] = rule(grad, values, raw.gatherNd(dense, places));
    return [null, forValues, null, raw.scatterNd(places, atPlaces, raw.shape(dense, { outType: 'int64' }))];
  });

/** For each index of the sparse tensor, the index of the dense element that broadcasts to it. */
function broadcastPlaces(indices: Output, shape: Output, dense: Output): Output {
  const own = raw.shape(dense, { outType: 'int64' });
  const missing = raw.sub(raw.size(shape), raw.size(own));
  const begin = raw.pack([int32(0), missing]);
  const aligned = raw.slice(indices, begin, int32([-1, -1]));
  const stretched = raw.cast(raw.greater(own, int64(1n)), { dstT: 'int64' });
  return raw.mul(aligned, stretched);
}

/** Indices may be a scalar or a vector if the dense tensor has one axis. */
function toDense(op: Operation, grad: Output): (Output | null)[] {
  const [indices, , values] = op.inputs as [Output, Output, Output];
  const matrix = indices.rank === 2 ? indices : raw.reshape(indices, raw.pack([int32(-1), raw.rank(grad)]));
  const picked = raw.gatherNd(grad, matrix);
  const total = (x: Output): Output => raw.sum(x, allAxes(x));
  const forValues = values.rank === 0 ? total(picked) : reshapeLike(picked, values);
  return [null, null, forValues, raw.sub(total(grad), total(picked))];
}

/** Sorting permutes the values: the gradient gets the inverse permutation. */
const reorder: GradientFunction = (op, [, grad]) => {
  if (!grad) return [null, null, null];
  const [indices, values, shape] = op.inputs as [Output, Output, Output];
  const places = raw.range(int32(0), raw.size(values), int32(1));
  const sorted = raw.sparseReorder(indices, places, shape).outputValues;
  return [null, rows(grad, raw.invertPermutation(sorted)), null];
};

export const sparseGradients: GradientTable = {
  SparseAdd: (op, [, grad]) => {
    if (!grad) return op.inputs.map(() => null);
    const { aValGrad, bValGrad } = raw.sparseAddGrad(grad, inputOf(op, 0), inputOf(op, 3), op.output(0));
    return [null, aValGrad, null, null, bValGrad, null, null];
  },
  SparseTensorDenseAdd: single((op, grad) => [null, raw.gatherNd(grad, inputOf(op, 0)), null, grad]),
  SparseTensorDenseMatMul: denseMatMul,
  SparseDenseCwiseMul: cwise((grad, x, y) => [raw.mul(grad, y), raw.mul(grad, x)]),
  SparseDenseCwiseDiv: cwise((grad, x, y) => [
    raw.realDiv(grad, y),
    raw.neg(raw.realDiv(raw.mul(grad, x), raw.square(y))),
  ]),
  SparseReduceSum: reduceSum,
  SparseSoftmax: softmax,
  SparseToDense: single(toDense),
  SparseReorder: reorder,
  SparseSlice: (op, [, grad]) => {
    if (!grad) return op.inputs.map(() => null);
    const [indices, , , start] = op.inputs as [Output, Output, Output, Output];
    return [null, raw.sparseSliceGrad(grad, indices, start, op.output(0)), null, null, null];
  },
  SparseFillEmptyRows: (op, [, grad]) => {
    if (!grad) return op.inputs.map(() => null);
    const { dValues, dDefaultValue } = raw.sparseFillEmptyRowsGrad(op.output(3), grad);
    return [null, dValues, null, dDefaultValue];
  },
  SparseFillEmptyRowsGrad: (op, grads) => {
    const [places, inner] = op.inputs as [Output, Output];
    const [forValues, forDefault] = [
      grads[0] ?? raw.zerosLike(op.output(0)),
      grads[1] ?? raw.zerosLike(op.output(1)),
    ];
    const whole = raw.fill(raw.shape(inner), forDefault);
    return [null, raw.tensorScatterUpdate(whole, raw.expandDims(places, int32(1)), forValues)];
  },
  SparseConcat: null,
  SparseAddGrad: null,
};
