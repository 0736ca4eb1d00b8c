/** Convolutional layers, and those that crop, pad and enlarge. */
import type { OrNull } from '../../../base/errors/null-options.js';
import { conv2d as buildConv2d, type Conv2dOptions } from '../../../tensorflow/layers/convolution.js';
import { LAYER_OPTIONS } from '../../../tensorflow/layers/known-options.js';
import * as convolution from '../../../tensorflow/layers/spatial/convolution.js';
import {
  cropping,
  type Margins,
  repeatElements,
  resizeBilinear,
  zeroPadding,
} from '../../../tensorflow/layers/spatial/resizing.js';
import * as separable from '../../../tensorflow/layers/spatial/separable.js';
import { sizesOf, type Triple } from '../../../tensorflow/layers/spatial/sizes.js';
import * as transposed from '../../../tensorflow/layers/spatial/transposed.js';
import type { Pair } from '../../../tensorflow/ops/nn.js';
import type { Layer } from '../layer.js';
import { define, type NamedLayer, type Options, plain, scoped } from './define.js';

type Given<O extends object> = OrNull<Options<O>>;

export const conv1d = (
  filters: number,
  kernelSize: number,
  options: Given<convolution.Conv1dOptions> = {},
): Layer =>
  scoped(
    'Conv1D',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.conv1d,
    (x, own: convolution.Conv1dOptions) => convolution.conv1d(x, filters, kernelSize, own),
  );

export const conv2d = (filters: number, kernelSize: Pair, options: Given<Conv2dOptions> = {}): Layer =>
  scoped('Conv2D', { filters, kernelSize }, options, LAYER_OPTIONS.conv2d, (x, own: Conv2dOptions) =>
    buildConv2d(x, filters, kernelSize, own),
  );

export const conv3d = (
  filters: number,
  kernelSize: Triple,
  options: Given<convolution.Conv3dOptions> = {},
): Layer =>
  scoped(
    'Conv3D',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.conv3d,
    (x, own: convolution.Conv3dOptions) => convolution.conv3d(x, filters, kernelSize, own),
  );

export const conv1dTranspose = (
  filters: number,
  kernelSize: number,
  options: Given<transposed.Conv1dTransposeOptions> = {},
): Layer =>
  scoped(
    'Conv1DTranspose',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.conv1dTranspose,
    (x, own: transposed.Conv1dTransposeOptions) => transposed.conv1dTranspose(x, filters, kernelSize, own),
  );

export const conv2dTranspose = (
  filters: number,
  kernelSize: Pair,
  options: Given<transposed.Conv2dTransposeOptions> = {},
): Layer =>
  scoped(
    'Conv2DTranspose',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.conv2dTranspose,
    (x, own: transposed.Conv2dTransposeOptions) => transposed.conv2dTranspose(x, filters, kernelSize, own),
  );

export const conv3dTranspose = (
  filters: number,
  kernelSize: Triple,
  options: Given<transposed.Conv3dTransposeOptions> = {},
): Layer =>
  scoped(
    'Conv3DTranspose',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.conv3dTranspose,
    (x, own: transposed.Conv3dTransposeOptions) => transposed.conv3dTranspose(x, filters, kernelSize, own),
  );

/** A convolution of each channel on its own. */
export const depthwiseConv1d = (
  kernelSize: number,
  options: Given<separable.DepthwiseConv1dOptions> = {},
): Layer =>
  scoped(
    'DepthwiseConv1D',
    { kernelSize },
    options,
    LAYER_OPTIONS.depthwiseConv1d,
    (x, own: separable.DepthwiseConv1dOptions) => separable.depthwiseConv1d(x, kernelSize, own),
  );

/** A convolution of each channel on its own. */
export const depthwiseConv2d = (
  kernelSize: Pair,
  options: Given<separable.DepthwiseConv2dOptions> = {},
): Layer =>
  scoped(
    'DepthwiseConv2D',
    { kernelSize },
    options,
    LAYER_OPTIONS.depthwiseConv2d,
    (x, own: separable.DepthwiseConv2dOptions) => separable.depthwiseConv2d(x, kernelSize, own),
  );

/** A convolution of each channel on its own, then one across the channels. */
export const separableConv1d = (
  filters: number,
  kernelSize: number,
  options: Given<separable.SeparableConv1dOptions> = {},
): Layer =>
  scoped(
    'SeparableConv1D',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.separableConv1d,
    (x, own: separable.SeparableConv1dOptions) => separable.separableConv1d(x, filters, kernelSize, own),
  );

/** A convolution of each channel on its own, then one across the channels. */
export const separableConv2d = (
  filters: number,
  kernelSize: Pair,
  options: Given<separable.SeparableConv2dOptions> = {},
): Layer =>
  scoped(
    'SeparableConv2D',
    { filters, kernelSize },
    options,
    LAYER_OPTIONS.separableConv2d,
    (x, own: separable.SeparableConv2dOptions) => separable.separableConv2d(x, filters, kernelSize, own),
  );

const padding =
  (rank: number) =>
  (margins: Margins = 1, options: OrNull<NamedLayer> = {}): Layer =>
    plain(`ZeroPadding${rank}D`, { padding: margins }, options, (x, { name }) =>
      zeroPadding(name, x, rank, margins),
    );
const crop =
  (rank: number) =>
  (margins: Margins = 1, options: OrNull<NamedLayer> = {}): Layer =>
    plain(`Cropping${rank}D`, { cropping: margins }, options, (x, { name }) =>
      cropping(name, x, rank, margins),
    );

/** Adds zeros at both ends; default: one. */
export const zeroPadding1d = padding(1);
/** Adds zeros around images; default: one on each side. */
export const zeroPadding2d = padding(2);
/** Adds zeros around volumes; default: one on each side. */
export const zeroPadding3d = padding(3);
/** Removes steps at both ends; default: one. */
export const cropping1d = crop(1);
/** Removes the border of images; default: one element on each side. */
export const cropping2d = crop(2);
/** Removes the border of volumes; default: one element on each side. */
export const cropping3d = crop(3);

/** Repeats each step. */
export const upSampling1d = (size = 2, options: OrNull<NamedLayer> = {}): Layer =>
  plain('UpSampling1D', { size }, options, (x, { name }) => repeatElements(name, x, [size]));

export interface UpSamplingOptions extends NamedLayer {
  /** Default: `nearest`, each element is repeated. */
  readonly interpolation?: 'nearest' | 'bilinear';
}

/** Enlarges images. */
export const upSampling2d = (size: Pair = 2, options: OrNull<UpSamplingOptions> = {}): Layer =>
  define<UpSamplingOptions>({
    className: 'UpSampling2D',
    args: { size },
    options,
    known: { interpolation: true },
    body: ([x], { name }, { interpolation = 'nearest' }: UpSamplingOptions) =>
      (interpolation === 'bilinear' ? resizeBilinear : repeatElements)(
        name,
        x!,
        sizesOf(name, 'the size', size, 2),
      ),
  });

/** Enlarges volumes: each element is repeated. */
export const upSampling3d = (size: Triple = 2, options: OrNull<NamedLayer> = {}): Layer =>
  plain('UpSampling3D', { size }, options, (x, { name }) =>
    repeatElements(name, x, sizesOf(name, 'the size', size, 3)),
  );
