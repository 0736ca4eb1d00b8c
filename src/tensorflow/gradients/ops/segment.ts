/** Gradients of segment sums. Those of sparse segment ops are slices: such an op may read rows of a huge table. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { IndexedSlices } from '../indexed-slices.js';
import { firstOnly, inputOf, int32, shapeOf } from '../pieces.js';

const rows = (x: Output, ids: Output): Output => raw.gatherV2(x, ids, int32(0));

/** One number per id, shaped to multiply rows of the rank of `like`. */
function perRow(numbers: Output, like: Output): Output {
  if (like.rank !== null) {
    return raw.reshape(numbers, int32([-1, ...new Array<number>(Math.max(0, like.rank - 1)).fill(1)]));
  }
  const ones = raw.fill(raw.expandDims(raw.sub(raw.rank(like), int32(1)), int32(0)), int32(1));
  return raw.reshape(numbers, raw.concatV2([int32([-1]), ones], int32(0)));
}

/** The number of ids in each segment that `grad` has a row for, at least 1. */
function segmentSizes(ids: Output, grad: Output): Output {
  const ones = raw.cast(raw.onesLike(ids), { dstT: grad.dtype });
  const count = raw.gatherV2(raw.shape(grad), int32(0), int32(0));
  const sizes = raw.unsortedSegmentSum(ones, ids, count);
  return perRow(raw.maximum(sizes, raw.onesLike(sizes)), grad);
}

/** The row of each id; zeros for negative ids, which unsorted segment ops ignore. */
function rowsOfValid(x: Output, ids: Output): Output {
  const found = rows(x, raw.maximum(ids, raw.zerosLike(ids)));
  return raw.selectV2(validRows(ids, found), found, raw.zerosLike(found));
}

/** Whether an id is not negative, shaped to select among rows. */
function validRows(ids: Output, found: Output): Output {
  const valid = raw.greaterEqual(ids, raw.zerosLike(ids));
  if (ids.rank !== null && found.rank !== null) {
    const wide = [...new Array<number>(found.rank - ids.rank).fill(1)];
    return raw.reshape(valid, raw.concatV2([shapeOf(ids), int32(wide)], int32(0)));
  }
  const missing = raw.expandDims(raw.sub(raw.rank(found), raw.rank(ids)), int32(0));
  return raw.reshape(valid, raw.concatV2([raw.shape(ids), raw.fill(missing, int32(1))], int32(0)));
}

/** The elements that equal the extreme of their segment share its gradient equally. */
const extreme = (sum: (x: Output, op: Operation) => Output, spread: typeof rows): GradientFunction =>
  firstOnly((op, grad) => {
    const [data, ids] = op.inputs as [Output, Output];
    const chosen = raw.equal(data, spread(op.output(), ids));
    const count = sum(raw.cast(chosen, { dstT: grad.dtype }), op);
    const share = spread(raw.divNoNan(grad, count), ids);
    return raw.selectV2(chosen, share, raw.zerosLike(share));
  });

/**
 * The product of the other elements of a segment: the total product divided by the element; if the element is
 * zero, the product of the nonzero ones, unless there is another zero.
 */
const product = (
  sum: (x: Output, op: Operation) => Output,
  prod: (x: Output, op: Operation) => Output,
  spread: typeof rows,
): GradientFunction =>
  firstOnly((op, grad) => {
    const [data, ids] = op.inputs as [Output, Output];
    const isZero = raw.equal(data, raw.zerosLike(data));
    const zeros = spread(sum(raw.cast(isZero, { dstT: data.dtype }), op), ids);
    const filled = raw.selectV2(isZero, raw.onesLike(data), data);
    const others = raw.realDiv(spread(prod(filled, op), ids), filled);
    // An element counts if no other element of its segment is zero.
    const own = raw.cast(isZero, { dstT: data.dtype });
    const alone = raw.equal(zeros, own);
    return raw.mul(raw.selectV2(alone, others, raw.zerosLike(others)), spread(grad, ids));
  });

const sortedSum = (x: Output, op: Operation): Output => raw.segmentSum(x, inputOf(op, 1));
const sortedProd = (x: Output, op: Operation): Output => raw.segmentProd(x, inputOf(op, 1));
const unsortedSum = (x: Output, op: Operation): Output =>
  raw.unsortedSegmentSum(x, inputOf(op, 1), inputOf(op, 2));
const unsortedProd = (x: Output, op: Operation): Output =>
  raw.unsortedSegmentProd(x, inputOf(op, 1), inputOf(op, 2));

type Combiner = 'Sum' | 'Mean' | 'SqrtN';

/** One slice per row used. The library's kernel leaves its result uninitialized if there are none. */
const sparseSegment = (combiner: Combiner): GradientFunction =>
  firstOnly((op, grad) => {
    const [data, indices, ids] = op.inputs as [Output, Output, Output];
    const share = combiner === 'Sum' ? grad : raw.realDiv(grad, weights());
    return new IndexedSlices(rows(share, ids), indices, shapeOf(data, 'int64'));

    function weights(): Output {
      const sizes = segmentSizes(ids, grad);
      return combiner === 'Mean' ? sizes : raw.sqrt(sizes);
    }
  });

export const segmentGradients: GradientTable = {
  SegmentSum: firstOnly((op, grad) => rows(grad, inputOf(op, 1))),
  SegmentMean: firstOnly((op, grad) => {
    const ids = inputOf(op, 1);
    return rows(raw.realDiv(grad, segmentSizes(ids, grad)), ids);
  }),
  SegmentMax: extreme(sortedSum, rows),
  SegmentMin: extreme(sortedSum, rows),
  SegmentProd: product(sortedSum, sortedProd, rows),
  UnsortedSegmentSum: firstOnly((op, grad) => rowsOfValid(grad, inputOf(op, 1))),
  UnsortedSegmentMax: extreme(unsortedSum, rowsOfValid),
  UnsortedSegmentMin: extreme(unsortedSum, rowsOfValid),
  UnsortedSegmentProd: product(unsortedSum, unsortedProd, rowsOfValid),

  SparseSegmentSum: sparseSegment('Sum'),
  SparseSegmentSumWithNumSegments: sparseSegment('Sum'),
  SparseSegmentMean: sparseSegment('Mean'),
  SparseSegmentMeanWithNumSegments: sparseSegment('Mean'),
  SparseSegmentSqrtN: sparseSegment('SqrtN'),
  SparseSegmentSqrtNWithNumSegments: sparseSegment('SqrtN'),
};
