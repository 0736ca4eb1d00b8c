/** Gradients of decompositions: QR, eigenvalues of self-adjoint matrices, singular values. */
import type { Operation, Output } from '../../graph/operation.js';
import { slice } from '../../ops/arrays.js';
import * as raw from '../../ops/generated/index.js';
import { isComplex } from '../../tensor/dtype.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { allGrads, inputOf, int32 } from '../pieces.js';
import { adjoint, product, unsupported } from './linalg.js';

const below = (x: Output): Output => raw.matrixBandPart(x, int32(-1), int32(0));

/** 1 / (values_j - values_i) off the diagonal, 0 on it and where two values are equal. */
function inverseGaps(values: Output): Output {
  const gaps = raw.sub(raw.expandDims(values, int32(-2)), raw.expandDims(values, int32(-1)));
  return raw.divNoNan(raw.onesLike(gaps), gaps);
}

/** x·R⁻ᴴ for an upper triangular R. */
const overAdjoint = (x: Output, r: Output): Output =>
  adjoint(raw.matrixTriangularSolve(r, adjoint(x), { lower: false, adjoint: false }));

/** For matrices with at least as many rows as columns. */
function tallQr(q: Output, r: Output, dq: Output, dr: Output): Output {
  const qdq = product(q, dq, true);
  const rdr = product(r, dr, false, true);
  const skew = (x: Output) => raw.sub(x, adjoint(x));
  const lower = below(raw.addV2(skew(qdq), skew(rdr)));
  const inSpan = product(q, raw.addV2(dr, overAdjoint(lower, r)));
  const outOfSpan = overAdjoint(raw.sub(dq, product(q, qdq)), r);
  const grad = raw.addV2(inSpan, outOfSpan);
  if (!isComplex(q.dtype)) return grad;
  // The diagonal of R is real, so its phase is not a free parameter.
  const tout = q.dtype === 'complex128' ? 'float64' : 'float32';
  const phases = raw.imag(raw.matrixDiagPart(raw.sub(rdr, adjoint(qdq))), { tout });
  const turned = raw.complex(raw.zerosLike(phases), raw.neg(phases), { tout: q.dtype });
  return raw.addV2(grad, overAdjoint(raw.mul(q, raw.expandDims(turned, int32(-2))), r));
}

const qr: GradientFunction = (op, grads) => {
  const [q, r] = op.outputs as [Output, Output];
  const [dq, dr] = allGrads(op, grads) as [Output, Output];
  const [rows, columns] = (inputOf(op, 0).shape ?? []).slice(-2);
  if (typeof rows !== 'number' || typeof columns !== 'number') {
    throw unsupported(op, 'the size of the matrices is not known when the graph is built');
  }
  if (rows >= columns) {
    if (rows > columns && op.attr('full_matrices')) {
      throw unsupported(op, 'full matrices of more rows than columns are not unique');
    }
    return [tallQr(q, r, dq, dr)];
  }
  // A = [X, Y] and R = [U, V]: X = Q·U is square, and V = Qᴴ·Y.
  const rank = r.rank as number;
  const columnsFrom = (x: Output, from: number, count: number) =>
    slice(
      x,
      Array.from({ length: rank }, (_, axis) => (axis === rank - 1 ? from : 0)),
      Array.from({ length: rank }, (_, axis) => (axis === rank - 1 ? count : -1)),
    );
  const y = columnsFrom(inputOf(op, 0), rows, -1);
  const [du, dv] = [columnsFrom(dr, 0, rows), columnsFrom(dr, rows, -1)];
  const dx = tallQr(q, columnsFrom(r, 0, rows), raw.addV2(dq, product(y, dv, false, true)), du);
  return [raw.concatV2([dx, product(q, dv)], int32(-1))];
};

/** The op reads only the lower triangle: the gradient of the upper triangle is added to it. */
function foldedBelow(grad: Output): Output {
  const both = below(raw.addV2(grad, adjoint(grad)));
  return raw.matrixSetDiag(both, raw.mul(raw.matrixDiagPart(both), 0.5));
}

const selfAdjointEig: GradientFunction = (op, [gradE, gradV]) => {
  const a = inputOf(op, 0);
  const hasVectors = op.attr('compute_v') === true;
  const [e, v] = hasVectors
    ? (op.outputs as [Output, Output])
    : [op.output(0), raw.selfAdjointEigV2(a, { computeV: true }).v];
  const byValues = gradE && raw.matrixDiag(gradE);
  const byVectors = hasVectors && gradV ? raw.mul(inverseGaps(e), product(v, gradV, true)) : undefined;
  const middle = byValues && byVectors ? raw.addV2(byValues, byVectors) : (byValues ?? byVectors);
  if (!middle) return [null];
  return [foldedBelow(product(v, product(middle, v, false, true)))];
};

const svd: GradientFunction = (op, [gradS, gradU, gradV]) => {
  const a = inputOf(op, 0);
  const hasVectors = op.attr('compute_uv') === true;
  const { s, u, v } = hasVectors
    ? { s: op.output(0), u: op.output(1), v: op.output(2) }
    : raw.svd(a, { computeUv: true, fullMatrices: false });
  const wantsVectors = hasVectors && (gradU !== undefined || gradV !== undefined);
  if (wantsVectors) checkVectors(op);
  const parts: Output[] = [];
  const typed = (x: Output): Output => (x.dtype === a.dtype ? x : raw.cast(x, { dstT: a.dtype }));
  if (gradS) parts.push(product(scaled(typed(gradS), thin(op, u, s)), thin(op, v, s), false, true));
  if (wantsVectors && gradU) parts.push(leftVectors(s, u, v, gradU));
  if (wantsVectors && gradV) parts.push(adjoint(leftVectors(s, v, u, gradV)));
  return [parts.length > 1 ? raw.addN(parts) : (parts[0] ?? null)];
};

/** Scales each column of `x`. */
const scaled = (numbers: Output, x: Output): Output => raw.mul(x, raw.expandDims(numbers, int32(-2)));

/** The vectors that belong to a singular value; full matrices have more. */
function thin(op: Operation, vectors: Output, s: Output): Output {
  if (!op.attr('full_matrices') || op.attr('compute_uv') !== true) return vectors;
  const last = { endMask: 1, shrinkAxisMask: 1 };
  const count = raw.stridedSlice(raw.shape(s), int32([-1]), int32([0]), int32([1]), last);
  const end = raw.pack([int32(0), count]);
  return raw.stridedSlice(vectors, int32([0, 0]), end, int32([1, 1]), { ellipsisMask: 1 });
}

function checkVectors(op: Operation): void {
  if (isComplex(inputOf(op, 0).dtype)) {
    throw unsupported(op, 'complex singular vectors have a phase that is not unique');
  }
  if (op.attr('full_matrices')) {
    throw unsupported(op, 'the further vectors of full matrices are not unique; ask for thin ones');
  }
}

/**
 * The contribution of the left singular vectors to dA: (U·(F∘(UᵀdU - dUᵀU))·S + (1 - U·Uᵀ)·dU·S⁻¹)·Vᵀ, where F holds
 * the inverse gaps between the squares of the singular values.
 */
function leftVectors(s: Output, u: Output, v: Output, gradU: Output): Output {
  const uGrad = product(u, gradU, true);
  const turned = raw.mul(inverseGaps(raw.square(s)), raw.sub(uGrad, adjoint(uGrad)));
  const inSpan = scaled(s, product(u, turned));
  const outOfSpan = scaled(raw.divNoNan(raw.onesLike(s), s), raw.sub(gradU, product(u, uGrad)));
  return product(raw.addV2(inSpan, outOfSpan), v, false, true);
}

export const decompositionGradients: GradientTable = {
  Qr: qr,
  SelfAdjointEigV2: selfAdjointEig,
  Svd: svd,
};
