/** Gradients of inverses, determinants and solved systems of equations, for batches of matrices. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { isComplex } from '../../tensor/dtype.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { inputOf, int32, single } from '../pieces.js';
import { unbroadcastBatches } from './matmul.js';

/** The product of two matrices, each optionally replaced by its adjoint. */
export const product = (a: Output, b: Output, adjX = false, adjY = false): Output =>
  raw.batchMatMulV2(a, b, { adjX, adjY });

const LAST_TWO_SWAPPED = [1, 0];

/** The conjugate transpose of the last two axes. */
export function adjoint(x: Output): Output {
  const flip = (order: Output | ReturnType<typeof int32>): Output =>
    isComplex(x.dtype) ? raw.conjugateTranspose(x, order) : raw.transpose(x, order);
  if (x.rank !== null) {
    const lead = x.rank - 2;
    return flip(
      int32([...Array.from({ length: lead }, (_, i) => i), ...LAST_TWO_SWAPPED.map((axis) => axis + lead)]),
    );
  }
  const rank = raw.rank(x);
  const lead = raw.sub(rank, int32(2));
  const swapped = raw.addV2(lead, int32(LAST_TWO_SWAPPED));
  return flip(raw.concatV2([raw.range(int32(0), lead, int32(1)), swapped], int32(0)));
}

/** One number per matrix, as 1×1 matrices. */
const asMatrices = (x: Output): Output => raw.expandDims(raw.expandDims(x, int32(-1)), int32(-1));

/** d log det A = tr(A⁻¹ dA). */
const logDeterminant = (a: Output, grad: Output): Output =>
  raw.mul(asMatrices(grad), raw.matrixInverse(a, { adjoint: true }));

const inverse = single((op, grad) => {
  const y = op.output();
  // For the inverse of the adjoint, the gradient is transposed instead.
  return op.attr('adjoint')
    ? [raw.neg(product(y, product(grad, y, true), false))]
    : [raw.neg(product(y, product(grad, y, false, true), true))];
});

/** With A·X = B: dB = A⁻ᴴ·dX and dA = -dB·Xᴴ; for a system of the adjoint they are swapped. */
const solve =
  (
    system: (op: Operation, a: Output, b: Output, isAdjoint: boolean) => Output,
    part: (op: Operation, gradA: Output) => Output,
  ): GradientFunction =>
  (op, [grad], { needed }) => {
    if (!grad) return [null, null];
    const [a, b] = op.inputs as [Output, Output];
    const x = op.output();
    const isAdjoint = op.attr('adjoint') === true;
    const gradB = system(op, a, grad, !isAdjoint);
    const gradA = () =>
      part(op, raw.neg(isAdjoint ? product(x, gradB, false, true) : product(gradB, x, false, true)));
    return unbroadcastBatches(a, b, needed[0] ? gradA() : null, needed[1] ? gradB : null);
  };

const isLower = (op: Operation): boolean => op.attr('lower') === true;

const below = (x: Output): Output => raw.matrixBandPart(x, int32(-1), int32(0));
const above = (x: Output): Output => raw.matrixBandPart(x, int32(0), int32(-1));

/** dA = ½·(T + Tᴴ) with T = L⁻ᴴ·(L⁻ᴴ·M)ᴴ, M the lower half of Lᴴ·dL, its diagonal halved. */
const cholesky = single((op, grad) => {
  const l = op.output();
  const middle = product(l, grad, true);
  const halved = raw.matrixSetDiag(below(middle), raw.mul(raw.matrixDiagPart(middle), 0.5));
  const backSolve = (b: Output) => raw.matrixTriangularSolve(l, b, { lower: true, adjoint: true });
  const turned = backSolve(adjoint(backSolve(halved)));
  return [raw.mul(raw.addV2(turned, adjoint(turned)), 0.5)];
});

const cross: GradientFunction = (op, [grad], { needed }) => {
  if (!grad) return [null, null];
  const [a, b] = op.inputs as [Output, Output];
  return [needed[0] ? raw.cross(b, grad) : null, needed[1] ? raw.cross(grad, a) : null];
};

export function unsupported(op: Operation, why: string): ShoalError {
  return new ShoalError('SHOAL_NO_GRADIENT', `The gradient of ${op} is not supported: ${why}`, {
    op: op.name,
  });
}

export const linalgGradients: GradientTable = {
  Cholesky: cholesky,
  Cross: cross,
  // The sign of a determinant is a step function: only the logarithm has a gradient.
  LogMatrixDeterminant: (op, [, grad]) => [grad && logDeterminant(inputOf(op, 0), grad)],
  MatrixDeterminant: single((op, grad) => [
    logDeterminant(
      inputOf(op, 0),
      raw.mul(grad, isComplex(grad.dtype) ? raw.conj(op.output()) : op.output()),
    ),
  ]),
  MatrixInverse: inverse,
  MatrixSolve: solve(
    (_op, a, b, adjoint) => raw.matrixSolve(a, b, { adjoint }),
    (_op, gradA) => gradA,
  ),
  MatrixTriangularSolve: solve(
    (op, a, b, adjoint) => raw.matrixTriangularSolve(a, b, { lower: isLower(op), adjoint }),
    (op, gradA) => (isLower(op) ? below(gradA) : above(gradA)),
  ),
};
