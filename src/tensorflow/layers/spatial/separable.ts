/** Depthwise convolutions, of each channel on its own, and separable ones: depthwise, then across the channels. */
import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, reshape, squeeze } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { conv2d as convolve2d, depthwiseConv2d as depthwise, type Padding, type Pair } from '../../ops/nn.js';
import type { TensorLike } from '../../tensor/tensor.js';
import type { Initializer } from '../../variables/initializers.js';
import { layerScope } from '../layer-scope.js';
import type { Regularizer } from '../regularizers.js';
import {
  AFFINE_NAMES,
  type AffineOptions,
  checkCount,
  checkRank,
  knownSize,
  layerOptions,
  weight,
  withBias,
} from '../weights.js';
import { type Sizes, sizesOf } from './sizes.js';

type Shared = Omit<AffineOptions, 'kernelInitializer' | 'kernelRegularizer'> & {
  /** The filters of each channel; default: 1. */
  readonly depthMultiplier?: number;
  /** The padding; default: 'valid'. */
  readonly padding?: Padding;
  /** The initializer of the depthwise kernel, or its initial value; default: Glorot uniform. */
  readonly depthwiseInitializer?: Initializer | TensorLike;
  /** The penalty on the depthwise kernel; default: none. */
  readonly depthwiseRegularizer?: Regularizer;
};
export interface DepthwiseConv1dOptions extends Shared {
  /** The step of the window; default: 1. */
  readonly strides?: number;
}
export interface DepthwiseConv2dOptions extends Shared {
  /** The step of the window, the same for both axes; default: 1. */
  readonly strides?: Pair;
}
interface Pointwise {
  /** The initializer of the pointwise kernel, or its initial value; default: Glorot uniform. */
  readonly pointwiseInitializer?: Initializer | TensorLike;
  /** The penalty on the pointwise kernel; default: none. */
  readonly pointwiseRegularizer?: Regularizer;
}
export interface SeparableConv1dOptions extends DepthwiseConv1dOptions, Pointwise {}
export interface SeparableConv2dOptions extends DepthwiseConv2dOptions, Pointwise {}
type AllOptions = Shared & Pointwise & { readonly strides?: Sizes };
type Layer = 'depthwiseConv1d' | 'depthwiseConv2d' | 'separableConv1d' | 'separableConv2d';

const { kernelInitializer: _, kernelRegularizer: __, ...BIASED } = AFFINE_NAMES;
export const DEPTHWISE_NAMES: Names<DepthwiseConv1dOptions & DepthwiseConv2dOptions> = {
  ...BIASED,
  strides: true,
  padding: true,
  depthMultiplier: true,
  depthwiseInitializer: true,
  depthwiseRegularizer: true,
};
export const SEPARABLE_NAMES: Names<SeparableConv1dOptions & SeparableConv2dOptions> = {
  ...DEPTHWISE_NAMES,
  pointwiseInitializer: true,
  pointwiseRegularizer: true,
};
const NAMES: Readonly<Record<Layer, Names<AllOptions>>> = {
  depthwiseConv1d: DEPTHWISE_NAMES as Names<AllOptions>,
  depthwiseConv2d: DEPTHWISE_NAMES as Names<AllOptions>,
  separableConv1d: SEPARABLE_NAMES,
  separableConv2d: SEPARABLE_NAMES,
};

/** Variables `depthwise_conv1d/kernel` [size, channels, multiplier] and `bias`. */
export const depthwiseConv1d = (
  inputs: Operand,
  size: number,
  options: OrNull<DepthwiseConv1dOptions> = {},
): Output => separated('depthwiseConv1d', 1, inputs, undefined, size, options);

/** Variables `depthwise_conv2d/kernel` [height, width, channels, multiplier] and `bias`. */
export const depthwiseConv2d = (
  inputs: Operand,
  size: Pair,
  options: OrNull<DepthwiseConv2dOptions> = {},
): Output => separated('depthwiseConv2d', 2, inputs, undefined, size, options);

/** Variables `separable_conv1d/depthwise_kernel`, `pointwise_kernel` and `bias`. */
export const separableConv1d = (
  inputs: Operand,
  filters: number,
  size: number,
  options: OrNull<SeparableConv1dOptions> = {},
): Output => separated('separableConv1d', 1, inputs, filters, size, options);

/** Variables `separable_conv2d/depthwise_kernel`, `pointwise_kernel` and `bias`. */
export const separableConv2d = (
  inputs: Operand,
  filters: number,
  size: Pair,
  options: OrNull<SeparableConv2dOptions> = {},
): Output => separated('separableConv2d', 2, inputs, filters, size, options);

function separated(
  layer: Layer,
  rank: 1 | 2,
  inputs: Operand,
  filters: number | undefined,
  size: Sizes,
  given: OrNull<AllOptions>,
): Output {
  const options = layerOptions<AllOptions>(layer, NAMES[layer], given);
  const { depthMultiplier = 1, padding = 'valid', trainable } = options;
  if (filters !== undefined) checkCount(layer, 'filters', filters);
  checkCount(layer, 'depthMultiplier', depthMultiplier);
  const window = sizesOf(layer, 'the size of the kernel', size, rank);
  const [first = 1, second = first] = sizesOf(layer, 'strides', options.strides ?? 1, rank);
  if (first !== second)
    throw invalid(`Layer ${layer}: strides must be the same for both axes; got ${first} and ${second}`);
  const x = asOutput(inputs);
  checkRank(layer, x, rank + 2);
  const channels = knownSize(layer, x, -1);
  const made = (name: string, shape: readonly number[], kind: 'depthwise' | 'pointwise'): Output =>
    weight(name, {
      shape,
      dtype: x.dtype,
      trainable,
      initializer: options[`${kind}Initializer`],
      regularizer: options[`${kind}Regularizer`],
    }).toOutput();
  const scope = `${filters === undefined ? 'depthwise' : 'separable'}_conv${rank}d`;
  return layerScope(x, scope, options, () => {
    const name = filters === undefined ? 'kernel' : 'depthwise_kernel';
    const kernel = made(name, [...window, channels, depthMultiplier], 'depthwise');
    // A sequence is an image of one row. The kernel needs equal strides, so its stride applies to that row too.
    const image = rank === 1 ? expandDims(x, 1) : x;
    let y: Output = depthwise(image, rank === 1 ? expandDims(kernel, 0) : kernel, {
      strides: first,
      padding,
    });
    const width = channels * depthMultiplier;
    if (filters !== undefined) {
      const ones = Array.from({ length: rank }, () => 1);
      const across = made('pointwise_kernel', [...ones, width, filters], 'pointwise');
      y = convolve2d(y, reshape(across, [1, 1, width, filters]), { padding: 'valid' });
    }
    return withBias(rank === 1 ? squeeze(y, [1]) : y, filters ?? width, options);
  });
}
