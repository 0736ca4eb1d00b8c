/** Gradient cases of reductions and cumulative sums. */
import { complex, f, f32, type GradientCase, ints } from '../case.js';

/** Shape, axes, whether the axes are kept. */
const REDUCED: readonly (readonly [readonly number[], number | readonly number[], boolean])[] = [
  [[2, 3, 2], [1], false],
  [[2, 3, 2], [0], false],
  [[2, 3, 2], [-1, 0], false],
  [[2, 3, 2], [0, 2], true],
  [[2, 3], [0, 1], false],
  [[2, 3], [], false],
  [[4], 0, false],
  [[], [], false],
  [[0, 3], [0], false],
  [[2, 0], [1], true],
];

const reductionCases = (op: string, range?: readonly [number, number]): GradientCase[] => [
  ...REDUCED.map(([shape, axes, keep]) => ({
    op,
    inputs: [f(shape, range), ints(axes)],
    attrs: { keep_dims: keep },
    ...(isEmptyExtreme(op, shape, axes) ? { noNumeric: 'infinite without elements' } : {}),
  })),
  { op, name: 'by int64 axes', inputs: [f([2, 3], range), ints([1], { dtype: 'int64' })] },
  { op, inputs: [f32([2, 3], range), ints([0])] },
];

function isEmptyExtreme(op: string, shape: readonly number[], axes: number | readonly number[]): boolean {
  return (op === 'Max' || op === 'Min') && [axes].flat().some((axis) => shape.at(axis as number) === 0);
}

const runningCases = (op: string, range?: readonly [number, number]): GradientCase[] => [
  ...[false, true].flatMap((exclusive) =>
    [false, true].map((reverse) => ({
      op,
      inputs: [f([3, 4], range), ints(1)],
      attrs: { exclusive, reverse },
      ...(exclusive && op === 'CumulativeLogsumexp' ? { noNumeric: 'minus infinity at the start' } : {}),
    })),
  ),
  { op, inputs: [f([3], range), ints(-1)] },
  { op, inputs: [f([0, 2], range), ints(0)] },
];

export const allReductionCases: readonly GradientCase[] = [
  ...['Sum', 'Mean', 'Prod', 'Max', 'Min'].flatMap((op) => reductionCases(op)),
  ...reductionCases('EuclideanNorm', [0.5, 2]).filter(({ inputs }) => isFilled(inputs)),
  ...['Sum', 'Mean', 'Prod'].map((op) => ({ op, inputs: [complex([2, 3]), ints([1])] })),
  ...['Sum', 'Mean', 'Prod', 'EuclideanNorm'].map((op) => ({
    op,
    order: 2 as const,
    inputs: [f([2, 3], [0.5, 2]), ints([1])],
    ...(op === 'Sum' || op === 'Mean' ? { nullIsZero: 'a linear op has no second derivative' } : {}),
  })),
  {
    op: 'Prod',
    name: 'with zeros',
    inputs: [{ shape: [3, 3], values: [0, 1, 2, 0, 0, 3, 4, 5, 6] }, ints([1])],
  },
  ...['Max', 'Min'].map((op) => ({
    op,
    name: 'with equal elements',
    inputs: [{ shape: [2, 3], values: [1, 1, 0, 2, 2, 2] }, ints([1])],
    noNumeric: 'a kink',
  })),
  ...['Cumsum', 'Cumprod', 'CumulativeLogsumexp'].flatMap((op) => runningCases(op, [0.5, 2])),
  {
    op: 'Cumprod',
    name: 'with a zero',
    inputs: [{ shape: [3], values: [2, 0, 3] }, ints(0)],
    noNumeric: 'TensorFlow divides by the elements, which gives 0 at a zero',
  },
  { op: 'Cumprod', order: 2, inputs: [f([3], [0.5, 2]), ints(0)] },
  ...[[2, 3], [], [0]].map((shape) => ({ op: 'L2Loss', inputs: [f(shape)] })),
  { op: 'L2Loss', order: 2, inputs: [f([2, 3])] },
  ...['ArgMax', 'ArgMin'].map((op) => ({ op, inputs: [f([2, 3]), ints(1)] })),
];

function isFilled(inputs: GradientCase['inputs']): boolean {
  return !(inputs[0] as { readonly shape: readonly number[] }).shape.includes(0);
}
