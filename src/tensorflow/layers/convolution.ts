/** Convolution over images [batch, height, width, channels]. */
import type { OrNull } from '../../base/errors/null-options.js';
import type { Names } from '../../base/errors/option-names.js';
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { conv2d as convolve, type Padding, type Pair } from '../ops/nn.js';
import { layerScope } from './layer-scope.js';
import {
  AFFINE_NAMES,
  type AffineOptions,
  affine,
  checkCount,
  checkRank,
  knownSize,
  layerOptions,
} from './weights.js';

export interface Conv2dOptions extends AffineOptions {
  /** The step of the window; default: 1. */
  readonly strides?: Pair;
  /** The padding of the image; default: 'valid'. */
  readonly padding?: Padding;
  /** The distance between elements of the window; default: 1. */
  readonly dilations?: Pair;
}

export const CONV2D_NAMES: Names<Conv2dOptions> = {
  ...AFFINE_NAMES,
  strides: true,
  padding: true,
  dilations: true,
};

/** Variables `conv2d/kernel` [height, width, channels, filters] and `conv2d/bias` [filters]; padding 'valid'. */
export function conv2d(
  inputs: Operand,
  filters: number,
  size: Pair,
  given: OrNull<Conv2dOptions> = {},
): Output {
  const options = layerOptions('conv2d', CONV2D_NAMES, given);
  checkCount('conv2d', 'filters', filters);
  const window = typeof size === 'number' ? [size, size] : size;
  for (const side of window) checkCount('conv2d', 'the size of the kernel', side);
  const x = asOutput(inputs);
  checkRank('conv2d', x, 4);
  const channels = knownSize('conv2d', x, -1);
  const { strides = 1, padding = 'valid', dilations = 1 } = options;
  return layerScope(x, 'conv2d', options, () =>
    affine([...window, channels, filters], x.dtype, options, (kernel) =>
      convolve(x, kernel, { strides, padding, dilations }),
    ),
  );
}
