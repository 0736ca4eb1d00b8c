/** Matrices and transforms. Factors that are unique only up to a sign are compared through their values. */
import { i32, noise, type OpCase, op, t } from '../case.js';

const square = t([
  [4, 1, 0.5],
  [1, 3, 0.25],
  [0.5, 0.25, 2],
]);
const double = t(
  [
    [4, 1, 0.5],
    [1, 3, 0.25],
    [0.5, 0.25, 2],
  ],
  'float64',
);
const complex = (shape: number[]) => noise(shape, -1, 1, 'complex64');

export const linalg: readonly OpCase[] = [
  op('MatMul', [noise([2, 3]), noise([3, 4])]),
  op('MatMul', [noise([3, 2]), noise([4, 3])], { transpose_a: true, transpose_b: true }),
  op('MatMul', [noise([2, 3], -5, 5, 'int32'), noise([3, 2], -5, 5, 'int32')]),
  op('MatMul', [complex([2, 2]), complex([2, 2])]),
  op('BatchMatMul', [noise([2, 2, 3]), noise([2, 3, 2])]),
  op('BatchMatMulV2', [noise([2, 1, 2, 3]), noise([4, 3, 2])]),
  op('BatchMatMulV2', [complex([2, 3, 2]), complex([2, 3, 2])], { adj_x: true }),
  op('BatchMatMulV3', [noise([2, 2, 3]), noise([2, 3, 2])], { Tout: 'float32' }),
  op('SparseMatMul', [noise([2, 3]), noise([3, 2])], { a_is_sparse: true }),
  op('Einsum', [[noise([2, 3, 4]), noise([2, 4, 5])]], { equation: 'bij,bjk->bik' }),
  op('Cross', [noise([2, 3]), noise([2, 3], -1, 1, 'float32', 2)]),
  op('Cholesky', [square]),
  op('Cholesky', [double]),
  op('CholeskyGrad', [
    t([
      [2, 0],
      [1, 3],
    ]),
    t([
      [1, 0],
      [1, 1],
    ]),
  ]),
  op('MatrixInverse', [square]),
  op('MatrixDeterminant', [square]),
  op('LogMatrixDeterminant', [square]),
  op('MatrixSolve', [square, noise([3, 2])]),
  op('MatrixTriangularSolve', [
    t([
      [2, 0],
      [1, 3],
    ]),
    noise([2, 2]),
  ]),
  op('MatrixSolveLs', [noise([4, 2], -2, 2, 'float64'), noise([4, 1], -2, 2, 'float64'), t(0.1, 'float64')]),
  op('MatrixLogarithm', [noise([1, 1], 1, 2, 'complex64')]),
  op('MatrixSquareRoot', [square]),
  { ...op('SelfAdjointEigV2', [double], { compute_v: false }), computed: 1 },
  op('Qr', [
    t(
      [
        [1, 2],
        [3, 4],
      ],
      'float64',
    ),
  ]),
  op('Lu', [square]),
  op('BandedTriangularSolve', [t([[2, 3, 4]]), noise([3, 1])]),
  op('TridiagonalMatMul', [t([[1, 1, 0]]), t([[2, 2, 2]]), t([[0, 1, 1]]), noise([3, 2])]),
  op('TridiagonalSolve', [
    t([
      [1, 1, 0],
      [4, 4, 4],
      [0, 1, 1],
    ]),
    noise([3, 1]),
  ]),
  op('FFT', [complex([8])]),
  op('IFFT', [complex([8])]),
  op('FFT2D', [complex([4, 4])]),
  op('IFFT2D', [complex([4, 4])]),
  op('FFT3D', [complex([2, 2, 2])]),
  op('IFFT3D', [complex([2, 2, 2])]),
  op('RFFT', [noise([8]), i32([8])]),
  op('IRFFT', [complex([5]), i32([8])]),
  op('RFFT2D', [noise([4, 4]), i32([4, 4])]),
  op('IRFFT2D', [complex([4, 3]), i32([4, 4])]),
];
