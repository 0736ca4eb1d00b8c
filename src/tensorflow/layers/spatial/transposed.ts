/** Transposed convolutions: the gradient of a convolution by its input, which enlarges what the convolution reduces. */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, squeeze, stack } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { add, cast, mul } from '../../ops/math.js';
import type { Padding, Pair } from '../../ops/nn.js';
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
import { around, paddingName, type Sizes, sizeOfAxis, sizesOf, type Triple } from './sizes.js';

export interface Conv1dTransposeOptions extends AffineOptions {
  /** How many times longer the result is; default: 1. */
  readonly strides?: number;
  /** The padding of the convolution; default: 'valid'. */
  readonly padding?: Padding;
}
export interface Conv2dTransposeOptions extends AffineOptions {
  /** How many times larger the result is; default: 1. */
  readonly strides?: Pair;
  /** The padding of the convolution; default: 'valid'. */
  readonly padding?: Padding;
}
export interface Conv3dTransposeOptions extends AffineOptions {
  /** How many times larger the result is; default: 1. */
  readonly strides?: Triple;
  /** The padding of the convolution; default: 'valid'. */
  readonly padding?: Padding;
}
type TransposeOptions = AffineOptions & { readonly strides?: Sizes; readonly padding?: Padding };
type Layer = 'conv1dTranspose' | 'conv2dTranspose' | 'conv3dTranspose';

export const TRANSPOSE_NAMES: Names<TransposeOptions> = { ...AFFINE_NAMES, strides: true, padding: true };

/** Of [batch, steps, channels]. Variables `conv1d_transpose/kernel` [size, filters, channels] and `bias`. */
export const conv1dTranspose = (
  inputs: Operand,
  filters: number,
  size: number,
  options: OrNull<Conv1dTransposeOptions> = {},
): Output => transposed('conv1dTranspose', 1, inputs, filters, size, options);

/** Of images. Variables `conv2d_transpose/kernel` [height, width, filters, channels] and `bias`. */
export const conv2dTranspose = (
  inputs: Operand,
  filters: number,
  size: Pair,
  options: OrNull<Conv2dTransposeOptions> = {},
): Output => transposed('conv2dTranspose', 2, inputs, filters, size, options);

/** Of volumes. Variables `conv3d_transpose/kernel` [depth, height, width, filters, channels] and `bias`. */
export const conv3dTranspose = (
  inputs: Operand,
  filters: number,
  size: Triple,
  options: OrNull<Conv3dTransposeOptions> = {},
): Output => transposed('conv3dTranspose', 3, inputs, filters, size, options);

function transposed(
  layer: Layer,
  rank: 1 | 2 | 3,
  inputs: Operand,
  filters: number,
  size: Sizes,
  given: OrNull<TransposeOptions>,
): Output {
  const options = layerOptions<TransposeOptions>(layer, TRANSPOSE_NAMES, given);
  checkCount(layer, 'filters', filters);
  const window = sizesOf(layer, 'the size of the kernel', size, rank);
  const strides = sizesOf(layer, 'strides', options.strides ?? 1, rank);
  const padding = options.padding ?? 'valid';
  const x = asOutput(inputs);
  checkRank(layer, x, rank + 2);
  const channels = knownSize(layer, x, -1);
  return layerScope(x, `conv${rank}d_transpose`, options, () =>
    affine(
      [...window, filters, channels],
      x.dtype,
      options,
      (kernel) => {
        // A sequence is an image of one row.
        if (rank === 1) {
          const [image, filter] = [expandDims(x, 1), expandDims(kernel, 0)];
          return squeeze(enlarge(image, filter, filters, [1, ...window], [1, ...strides], padding), [1]);
        }
        return enlarge(x, kernel, filters, window, strides, padding);
      },
      filters,
    ),
  );
}

function enlarge(
  x: Output,
  kernel: Output,
  filters: number,
  window: readonly number[],
  strides: readonly number[],
  padding: Padding,
): Output {
  const spatial = window.map((width, i) => {
    const stride = strides[i] as number;
    const more = padding === 'valid' ? Math.max(width - stride, 0) : 0;
    const size = sizeOfAxis(x, i + 1);
    return typeof size === 'number' ? size * stride + more : add(mul(size, stride), more);
  });
  const sizes = stack([sizeOfAxis(x, 0), ...spatial, filters].map((size) => cast(size, 'int32')));
  const attrs = { strides: around(strides), padding: paddingName(padding) };
  const shape = [
    x.shape?.[0] ?? null,
    ...spatial.map((size) => (typeof size === 'number' ? size : null)),
    filters,
  ];
  const made =
    window.length === 3
      ? raw.conv3DBackpropInputV2(sizes, kernel, x, attrs)
      : raw.conv2DBackpropInput(sizes, kernel, x, attrs);
  return made.setShape(shape);
}
