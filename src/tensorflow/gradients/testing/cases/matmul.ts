/** Gradient cases of matrix products. */
import { complex, f, f32, type GradientCase } from '../case.js';

const FLIPS = [false, true].flatMap((a) => [false, true].map((b) => [a, b] as const));

/** The shape of a factor, transposed if the op transposes it back. */
const factor = (rows: number, columns: number, isFlipped: boolean, batch: readonly number[] = []) => [
  ...batch,
  ...(isFlipped ? [columns, rows] : [rows, columns]),
];

const BATCHES: readonly (readonly [readonly number[], readonly number[]])[] = [
  [[2], [2]],
  [
    [2, 1],
    [1, 3],
  ],
  [[2, 3], [3]],
  [[], [2]],
  [[0], [1]],
  [[], []],
];

const EQUATIONS: readonly (readonly [string, ...(readonly number[])[]])[] = [
  ['ij,jk->ik', [2, 3], [3, 4]],
  ['ij,jk->ki', [2, 3], [3, 4]],
  ['bij,bjk->bik', [2, 2, 3], [2, 3, 2]],
  ['ij,ij->', [2, 3], [2, 3]],
  ['i,j->ij', [2], [3]],
  ['ij->ji', [2, 3]],
  ['ij->i', [2, 3]],
  ['ij->', [2, 3]],
  ['ii->i', [3, 3]],
  ['ii->', [3, 3]],
  ['iij->j', [2, 2, 3]],
  ['i->', [0]],
  ['ijk,kl->jl', [2, 3, 2], [2, 2]],
  ['iij,jk->ik', [2, 2, 3], [3, 2]],
  ['...ij,...jk->...ik', [2, 2, 3], [2, 3, 2]],
  ['...ij,...jk->...ik', [2, 1, 2, 3], [3, 3, 2]],
  ['...ij,jk->...ik', [2, 2, 3], [3, 2]],
  ['ij,...jk->...ik', [2, 3], [2, 3, 2]],
  ['i...j,j...->...i', [2, 3, 2], [2, 1]],
  ['...ij->...i', [2, 2, 3]],
  ['i...->...', [2, 3]],
  ['...i,...i->...', [2, 3], [3]],
];

export const matMulCases: readonly GradientCase[] = [
  ...FLIPS.flatMap(([a, b]) => [
    ...[f, complex].map((make) => ({
      op: 'MatMul',
      inputs: [make(factor(2, 3, a)), make(factor(3, 4, b))],
      attrs: { transpose_a: a, transpose_b: b },
    })),
    ...['BatchMatMul', 'BatchMatMulV2'].flatMap((op) =>
      [f, complex].map((make) => ({
        op,
        inputs: [make(factor(2, 3, a, [2])), make(factor(3, 4, b, [2]))],
        attrs: { adj_x: a, adj_y: b },
      })),
    ),
    {
      op: 'BatchMatMulV3',
      inputs: [f(factor(2, 3, a, [2])), f(factor(3, 4, b, [2]))],
      attrs: { adj_x: a, adj_y: b, Tout: 'float64' },
    },
  ]),
  { op: 'MatMul', inputs: [f([0, 3]), f([3, 2])] },
  { op: 'MatMul', inputs: [f([2, 0]), f([0, 3])] },
  { op: 'MatMul', inputs: [f32([2, 3]), f32([3, 2])] },
  { op: 'MatMul', order: 2, inputs: [f([2, 3]), f([3, 2])] },
  ...['BatchMatMulV2', 'BatchMatMulV3'].flatMap((op) =>
    BATCHES.map(([a, b]) => ({
      op,
      inputs: [f([...a, 2, 3]), f([...b, 3, 2])],
      ...(op === 'BatchMatMulV3' ? { attrs: { Tout: 'float64' } } : {}),
    })),
  ),
  { op: 'BatchMatMulV2', order: 2, inputs: [f([2, 1, 2, 3]), f([3, 3, 2])] },
  ...EQUATIONS.map(([equation, ...shapes]) => ({
    op: 'Einsum',
    inputs: [shapes.map((shape) => f(shape))],
    attrs: { equation },
  })),
  { op: 'Einsum', inputs: [[complex([2, 3]), complex([3, 2])]], attrs: { equation: 'ij,jk->ik' } },
  { op: 'Einsum', order: 2, inputs: [[f([2, 3]), f([3, 2])]], attrs: { equation: 'ij,jk->i' } },
];
