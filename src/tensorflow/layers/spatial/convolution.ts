/** Convolution over sequences and volumes; `conv2d` is in ../convolution.ts. */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, pad, squeeze } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { conv2d as convolve2d, type Padding } from '../../ops/nn.js';
import { layerScope } from '../layer-scope.js';
import {
  AFFINE_NAMES,
  type AffineOptions,
  affine,
  checkCount,
  checkRank,
  knownSize,
  layerOptions,
} from '../weights.js';
import { around, paddingName, sizesOf, type Triple } from './sizes.js';

export interface Conv1dOptions extends AffineOptions {
  /** The step of the window; default: 1. */
  readonly strides?: number;
  /** The padding; `causal` pads at the beginning only, so that no output depends on later inputs. Default: 'valid'. */
  readonly padding?: Padding | 'causal';
  /** The distance between elements of the window; default: 1. */
  readonly dilations?: number;
}

export interface Conv3dOptions extends AffineOptions {
  /** The step of the window; default: 1. */
  readonly strides?: Triple;
  /** The padding of the volume; default: 'valid'. */
  readonly padding?: Padding;
  /** The distance between elements of the window; default: 1. */
  readonly dilations?: Triple;
}

const NAMES = { ...AFFINE_NAMES, strides: true, padding: true, dilations: true } as const;
export const CONV1D_NAMES: Names<Conv1dOptions> = NAMES;
export const CONV3D_NAMES: Names<Conv3dOptions> = NAMES;

/** Over [batch, steps, channels]. Variables `conv1d/kernel` [size, channels, filters] and `conv1d/bias` [filters]. */
export function conv1d(
  inputs: Operand,
  filters: number,
  size: number,
  given: OrNull<Conv1dOptions> = {},
): Output {
  const options = layerOptions('conv1d', CONV1D_NAMES, given);
  checkCount('conv1d', 'filters', filters);
  const [width = 1] = sizesOf('conv1d', 'the size of the kernel', size, 1);
  const x = asOutput(inputs);
  checkRank('conv1d', x, 3);
  const channels = knownSize('conv1d', x, -1);
  const { strides = 1, padding = 'valid', dilations = 1 } = options;
  return layerScope(x, 'conv1d', options, () =>
    affine([width, channels, filters], x.dtype, options, (kernel) => {
      const isCausal = padding === 'causal';
      const padded = isCausal
        ? pad(x, [
            [0, 0],
            [(width - 1) * dilations, 0],
            [0, 0],
          ])
        : x; // prettier-ignore
      // As in TensorFlow: an image of one row.
      const rows = convolve2d(expandDims(padded, 1), expandDims(kernel, 0), {
        strides: [1, strides],
        dilations: [1, dilations],
        padding: isCausal ? 'valid' : padding,
      });
      return squeeze(rows, [1]);
    }),
  );
}

/** Over [batch, depth, height, width, channels]. Variables `conv3d/kernel` [depth, height, width, channels, filters] and `conv3d/bias`. */
export function conv3d(
  inputs: Operand,
  filters: number,
  size: Triple,
  given: OrNull<Conv3dOptions> = {},
): Output {
  const options = layerOptions('conv3d', CONV3D_NAMES, given);
  checkCount('conv3d', 'filters', filters);
  const window = sizesOf('conv3d', 'the size of the kernel', size, 3);
  const x = asOutput(inputs);
  checkRank('conv3d', x, 5);
  const channels = knownSize('conv3d', x, -1);
  const { strides = 1, padding = 'valid', dilations = 1 } = options;
  return layerScope(x, 'conv3d', options, () =>
    affine([...window, channels, filters], x.dtype, options, (kernel) =>
      raw.conv3D(x, kernel, {
        strides: around(sizesOf('conv3d', 'strides', strides, 3)),
        dilations: around(sizesOf('conv3d', 'dilations', dilations, 3)),
        padding: paddingName(padding),
      }),
    ),
  );
}
