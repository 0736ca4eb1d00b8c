/** Gradients of matrix products. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { PartialShape } from '../../tensor/shape.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { conjugated, int32 } from '../pieces.js';
import { einsumGradient } from './einsum.js';

/** The product of two matrices, each optionally transposed. */
type Product = (a: Output, b: Output, flipA: boolean, flipB: boolean) => Output;

/** With C = A·B: dA = dC·Bᵀ and dB = Aᵀ·dC; the gradient of a transposed factor is transposed. */
function factors(
  product: Product,
  [a, b, grad]: readonly [Output, Output, Output],
  [flippedA, flippedB]: readonly [boolean, boolean],
  needed: readonly boolean[],
): [Output | null, Output | null] {
  const left = () => (flippedA ? product(b, grad, flippedB, true) : product(grad, b, false, !flippedB));
  const right = () => (flippedB ? product(grad, a, true, flippedA) : product(a, grad, !flippedA, false));
  return [needed[0] ? left() : null, needed[1] ? right() : null];
}

const flips = (op: Operation, a: string, b: string): [boolean, boolean] => [
  op.attr(a) === true,
  op.attr(b) === true,
];

const matMul: GradientFunction = (op, [grad], { needed }) => {
  if (!grad) return [null, null];
  const [a, b] = op.inputs as [Output, Output];
  const product: Product = (x, y, transposeA, transposeB) => raw.matMul(x, y, { transposeA, transposeB });
  return factors(
    product,
    [conjugated(a), conjugated(b), grad],
    flips(op, 'transpose_a', 'transpose_b'),
    needed,
  );
};

/** Batches use adjoints, so no separate conjugation is needed. */
const batchMatMul: GradientFunction = (op, [grad], { needed }) => {
  if (!grad) return [null, null];
  const [a, b] = op.inputs as [Output, Output];
  const product: Product = (x, y, adjX, adjY) => raw.batchMatMulV2(x, y, { adjX, adjY });
  const [left, right] = factors(product, [a, b, grad], flips(op, 'adj_x', 'adj_y'), needed);
  return op.type === 'BatchMatMul' ? [left, right] : unbroadcastBatches(a, b, left, right);
};

/** Sums over the batch axes, those before the last two, along which a factor was broadcast. */
export function unbroadcastBatches(
  a: Output,
  b: Output,
  gradA: Output | null,
  gradB: Output | null,
): [Output | null, Output | null] {
  if (haveEqualBatches(a.shape, b.shape)) return [gradA, gradB];
  const [shapeA, shapeB] = [raw.shape(a), raw.shape(b)];
  const { r0, r1 } = raw.broadcastGradientArgs(batchOf(shapeA), batchOf(shapeB));
  return [gradA && raw.reshape(raw.sum(gradA, r0), shapeA), gradB && raw.reshape(raw.sum(gradB, r1), shapeB)];
}

function haveEqualBatches(a: PartialShape, b: PartialShape): boolean {
  if (a === null || b === null || a.length !== b.length) return false;
  return a.slice(0, -2).every((dim, axis) => dim !== null && dim === b[axis]);
}

const batchOf = (shape: Output): Output =>
  raw.stridedSlice(shape, int32([0]), int32([-2]), int32([1]), { beginMask: 1 });

export const matMulGradients: GradientTable = {
  BatchMatMul: batchMatMul,
  BatchMatMulV2: batchMatMul,
  BatchMatMulV3: batchMatMul,
  Einsum: einsumGradient,
  MatMul: matMul,
};
