/** Gradient cases of linear algebra: inverses, systems of equations, decompositions. */
import type { Output } from '../../../graph/operation.js';
import * as raw from '../../../ops/generated/index.js';
import { Tensor } from '../../../tensor/tensor.js';
import { product } from '../../ops/linalg.js';
import { complex, f, f32, type GradientCase, type InputSpec, type Random } from '../case.js';

/** Well-conditioned square matrices: random with a shift of the diagonal. */
const solid = (
  size: number,
  batch: readonly number[] = [],
  dtype: 'float64' | 'complex128' = 'float64',
): InputSpec => {
  const words = dtype === 'complex128' ? 2 : 1;
  const matrix = (random: Random) =>
    Array.from({ length: size * size * words }, (_, i) => {
      const [row, column] = [Math.floor(i / words / size), Math.floor(i / words) % size];
      return 2 * random() - 1 + (row === column && i % words === 0 ? size : 0);
    });
  return {
    shape: [...batch, size, size],
    dtype,
    values: (random) => Array.from({ length: batch.reduce((a, b) => a * b, 1) }, () => matrix(random)).flat(),
  };
};

/** X·Xᴴ + 1, the input of a Cholesky factorization: symmetric for any X. */
function positive(x: Output): Output {
  const square = product(x, x, false, true);
  const diagonal = raw.matrixDiagPart(square);
  return raw.matrixSetDiag(square, raw.addV2(diagonal, 1));
}

const upper = (x: Output): Output =>
  raw.matrixBandPart(x, Tensor.of(0, { dtype: 'int32' }), Tensor.of(-1, { dtype: 'int32' }));

const qrCase = (shape: readonly number[], make = f): GradientCase => ({
  op: 'Qr',
  inputs: [make(shape)],
  noUnknown: 'the sizes decide the formula',
  // R is constantly zero below its diagonal: an incoming gradient there has no effect.
  build: ([x]) => {
    const { q, r } = raw.qr(x as Output, { fullMatrices: false });
    return [q, upper(r)];
  },
});

export const linalgCases: readonly GradientCase[] = [
  ...[false, true].flatMap((adjointOf) => [
    { op: 'MatrixInverse', inputs: [solid(3)], attrs: { adjoint: adjointOf } },
    { op: 'MatrixInverse', inputs: [solid(2, [2], 'complex128')], attrs: { adjoint: adjointOf } },
    { op: 'MatrixSolve', inputs: [solid(3), f([3, 2])], attrs: { adjoint: adjointOf } },
    {
      op: 'MatrixSolve',
      inputs: [solid(2, [2], 'complex128'), complex([2, 2, 1])],
      attrs: { adjoint: adjointOf },
    },
    ...[false, true].flatMap((lower) => [
      {
        op: 'MatrixTriangularSolve',
        inputs: [solid(3), f([3, 2])],
        attrs: { adjoint: adjointOf, lower },
      },
      {
        op: 'MatrixTriangularSolve',
        inputs: [solid(2, [2], 'complex128'), complex([2, 2, 1])],
        attrs: { adjoint: adjointOf, lower },
      },
    ]),
  ]),
  { op: 'MatrixInverse', inputs: [f([0, 2, 2])] },
  { op: 'MatrixInverse', order: 2, inputs: [solid(2)] },
  { op: 'MatrixSolve', order: 2, inputs: [solid(2), f([2, 1])] },
  { op: 'MatrixTriangularSolve', inputs: [solid(2, [2, 1]), f([3, 2, 2])] },
  { op: 'MatrixTriangularSolve', inputs: [solid(2), f([3, 2, 2])] },
  ...['MatrixDeterminant', 'LogMatrixDeterminant'].flatMap((op) => [
    { op, inputs: [solid(3)] },
    { op, inputs: [solid(2, [2])] },
    { op, inputs: [f([0, 2, 2])] },
  ]),
  {
    op: 'MatrixDeterminant',
    inputs: [solid(2, [], 'complex128')],
    noOracle: 'TensorFlow omits the conjugate',
  },
  { op: 'MatrixDeterminant', order: 2, inputs: [solid(2)] },
  { op: 'LogMatrixDeterminant', order: 2, inputs: [solid(2)] },
  ...[f([3, 3]), f([2, 2, 3]), complex([2, 2])].map((input) => ({
    op: 'Cholesky',
    inputs: [input],
    build: ([x]: readonly Output[]) => [raw.cholesky(positive(x as Output))],
  })),
  {
    op: 'Cholesky',
    order: 2,
    inputs: [f([2, 2])],
    build: ([x]) => [raw.cholesky(positive(x as Output))],
  },
  qrCase([3, 3]),
  qrCase([4, 2]),
  qrCase([2, 4]),
  qrCase([2, 3, 2]),
  qrCase([3, 3], complex),
  ...[
    [3, 3],
    [2, 2, 2],
  ].flatMap((shape) => [
    { op: 'SelfAdjointEigV2', inputs: [f(shape)], attrs: { compute_v: true } },
    { op: 'SelfAdjointEigV2', outputs: [0], inputs: [f(shape)], attrs: { compute_v: false } },
  ]),
  {
    op: 'SelfAdjointEigV2',
    name: 'values only',
    outputs: [0],
    inputs: [f([3, 3])],
    attrs: { compute_v: true },
  },
  {
    op: 'SelfAdjointEigV2',
    name: 'vectors only',
    outputs: [1],
    inputs: [f([3, 3])],
    attrs: { compute_v: true },
  },
  ...[
    [3, 3],
    [4, 2],
    [2, 4],
    [2, 3, 2],
  ].flatMap((shape) => [
    { op: 'Svd', outputs: [0], inputs: [f(shape)], attrs: { compute_uv: false } },
    { op: 'Svd', inputs: [f(shape)], attrs: { compute_uv: true, full_matrices: false } },
  ]),
  {
    op: 'Svd',
    name: 'values only',
    outputs: [0],
    inputs: [f([3, 2])],
    attrs: { compute_uv: true, full_matrices: true },
  },
  {
    op: 'Svd',
    name: 'values only, which are real',
    inputs: [complex([3, 2])],
    build: ([x]) => {
      const { s: values } = raw.svd(x as Output, { computeUv: false });
      return [raw.real(values, { tout: 'float64' })];
    },
  },
  { op: 'Cross', inputs: [f([3]), f([3])] },
  { op: 'Cross', inputs: [f([2, 3]), f([2, 3])] },
  { op: 'Cross', inputs: [f32([0, 3]), f32([0, 3])] },
];
