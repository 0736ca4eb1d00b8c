/** Gradients of ops that extract diagonals and bands from matrices or build matrices from them. */
import type { Operation, Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientFunction, GradientTable } from '../gradient-function.js';
import { firstOnly, inputOf, int32, single } from '../pieces.js';

type Align = 'LEFT_RIGHT' | 'RIGHT_LEFT' | 'LEFT_LEFT' | 'RIGHT_RIGHT';

/** How diagonals of different lengths are aligned; version 2 of the ops has only one way. */
const alignOf = (op: Operation): Align => (op.attr('align') as Align | undefined) ?? 'LEFT_LEFT';

const zero = ({ dtype }: Output): Tensor => Tensor.of(0, { dtype });

const diagonalsOf = (op: Operation, matrix: Output, k: Output): Output =>
  raw.matrixDiagPartV3(matrix, k, zero(matrix), { align: alignOf(op) });

/** For matrices built from diagonals. The padding has no gradient in TensorFlow. */
const laidOut = firstOnly((op, grad) => diagonalsOf(op, grad, inputOf(op, 1)));

/** For extracted diagonals: puts them back in place, with zeros elsewhere. */
const takenOut: GradientFunction = firstOnly((op, grad) => {
  const matrix = inputOf(op, 0);
  const k = op.inputs[1] ?? int32(0);
  const [rows, columns] = (matrix.shape ?? []).slice(-2);
  return typeof rows === 'number' && typeof columns === 'number'
    ? raw.matrixDiagV3(grad, k, int32(rows), int32(columns), zero(grad), { align: alignOf(op) })
    : raw.matrixSetDiagV3(raw.zerosLike(matrix), grad, k, { align: alignOf(op) });
});

const replaced: GradientFunction = (op, [grad], { needed }) => {
  if (!grad) return op.inputs.map(() => null);
  const [, diagonal, k] = op.inputs as [Output, Output, Output | undefined];
  const place = k ?? int32(0);
  const gradients = [
    needed[0] ? raw.matrixSetDiagV3(grad, raw.zerosLike(diagonal), place, { align: alignOf(op) }) : null,
    needed[1] ? raw.matrixDiagPartV3(grad, place, zero(grad), { align: alignOf(op) }) : null,
    null,
  ];
  return gradients.slice(0, op.inputs.length);
};

export const diagonalGradients: GradientTable = {
  Diag: single((_op, grad) => [raw.diagPart(grad)]),
  DiagPart: single((_op, grad) => [raw.diag(grad)]),
  MatrixBandPart: firstOnly((op, grad) => raw.matrixBandPart(grad, inputOf(op, 1), inputOf(op, 2))),
  MatrixDiag: single((_op, grad) => [raw.matrixDiagPart(grad)]),
  MatrixDiagPart: takenOut,
  MatrixDiagPartV2: takenOut,
  MatrixDiagPartV3: takenOut,
  MatrixDiagV2: laidOut,
  MatrixDiagV3: laidOut,
  MatrixSetDiag: replaced,
  MatrixSetDiagV2: replaced,
  MatrixSetDiagV3: replaced,
};
