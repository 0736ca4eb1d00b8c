/** Gradient cases of select and clip ops. */
import { f, type GradientCase, type InputSpec } from '../case.js';

const bools = (shape: readonly number[]): InputSpec => ({ shape, dtype: 'bool' });

export const selectCases: readonly GradientCase[] = [
  { op: 'Select', inputs: [bools([2, 3]), f([2, 3]), f([2, 3])] },
  { op: 'Select', name: 'of rows', inputs: [bools([4]), f([4, 3]), f([4, 3])] },
  { op: 'Select', inputs: [bools([]), f([2]), f([2])] },
  { op: 'Select', inputs: [bools([0]), f([0]), f([0])] },
  { op: 'SelectV2', inputs: [bools([2, 3]), f([2, 3]), f([2, 3])] },
  { op: 'SelectV2', inputs: [bools([4, 1]), f([3]), f([])] },
  { op: 'SelectV2', inputs: [bools([]), f([2, 1]), f([1, 3])] },
  { op: 'SelectV2', inputs: [bools([0]), f([1]), f([])] },
  {
    op: 'SelectV2',
    order: 2,
    inputs: [bools([4, 1]), f([3]), f([])],
    nullIsZero: 'nothing depends on the inputs',
  },
  { op: 'ClipByValue', inputs: [f([2, 3]), f([], [-1, -0.5]), f([], [0.5, 1])] },
  { op: 'ClipByValue', inputs: [f([2, 3]), f([2, 3], [-1, -0.5]), f([2, 3], [0.5, 1])] },
  { op: 'ClipByValue', inputs: [f([]), f([], [-1, -0.5]), f([], [0.5, 1])] },
  { op: 'ClipByValue', inputs: [f([0]), f([], [-1, -0.5]), f([], [0.5, 1])] },
  {
    op: 'ClipByValue',
    name: 'at the bounds',
    inputs: [{ shape: [2], values: [-1, 1] }, { values: [-1] }, { values: [1] }],
    noNumeric: 'a kink',
  },
];
