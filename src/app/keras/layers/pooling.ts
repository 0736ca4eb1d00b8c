/** Pooling layers. */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import {
  averagePooling2d as average2d,
  maxPooling2d as max2d,
  type PoolingOptions,
} from '../../../tensorflow/layers/pooling.js';
import * as pooling from '../../../tensorflow/layers/spatial/pooling.js';
import type { Sizes, Triple } from '../../../tensorflow/layers/spatial/sizes.js';
import { expandDims } from '../../../tensorflow/ops/arrays.js';
import { cast, div, max, mean, mul, sum } from '../../../tensorflow/ops/math.js';
import type { Padding, Pair } from '../../../tensorflow/ops/nn.js';
import type { Layer } from '../layer.js';
import { define, type NamedLayer } from './define.js';

export interface PoolingLayerOptions extends NamedLayer {
  /** Default: `valid`. */
  readonly padding?: Padding;
}

const windows =
  <S extends Sizes>(
    className: string,
    pool: (x: Output, size: S, strides: S, options: PoolingOptions) => Output,
  ) =>
  (
    size: S = 2 as S,
    strides: S | null | undefined = size,
    options: OrNull<PoolingLayerOptions> = {},
  ): Layer =>
    define<PoolingLayerOptions>({
      className,
      args: { poolSize: size, strides: strides ?? size },
      options,
      known: { padding: true },
      body: ([x], _call, own: PoolingOptions) => pool(x as Output, size, strides ?? size, own),
    });

/** Default: windows of 2 that do not overlap. */
export const maxPooling1d = windows<number>('MaxPooling1D', pooling.maxPooling1d);
/** Default: windows of 2 by 2 that do not overlap. */
export const maxPooling2d = windows<Pair>('MaxPooling2D', max2d);
/** Default: windows of 2 by 2 by 2 that do not overlap. */
export const maxPooling3d = windows<Triple>('MaxPooling3D', pooling.maxPooling3d);
/** Default: windows of 2 that do not overlap. */
export const averagePooling1d = windows<number>('AveragePooling1D', pooling.averagePooling1d);
/** Default: windows of 2 by 2 that do not overlap. */
export const averagePooling2d = windows<Pair>('AveragePooling2D', average2d);
/** Default: windows of 2 by 2 by 2 that do not overlap. */
export const averagePooling3d = windows<Triple>('AveragePooling3D', pooling.averagePooling3d);

export interface GlobalPoolingOptions extends NamedLayer {
  /** Whether the reduced axes stay, with size 1. Default: false. */
  readonly keepdims?: boolean;
}

const global =
  (kind: 'Average' | 'Max', rank: number) =>
  (options: OrNull<GlobalPoolingOptions> = {}): Layer =>
    define<GlobalPoolingOptions>({
      className: `Global${kind}Pooling${rank}D`,
      options,
      known: { keepdims: true },
      body: ([given], { masks: [mask] }, { keepdims = false }: GlobalPoolingOptions) => {
        const x = given as Output;
        const axis = Array.from({ length: rank }, (_, i) => i + 1);
        if (kind === 'Max') return max(x, { axis, keepDims: keepdims });
        if (!mask || rank > 1) return mean(x, { axis, keepDims: keepdims });
        const factors = expandDims(cast(mask, x.dtype), -1);
        const total = sum(mul(x, factors), { axis, keepDims: keepdims });
        return div(total, sum(factors, { axis, keepDims: keepdims }));
      },
    });

/** The mean over all steps; masked steps do not count. */
export const globalAveragePooling1d = global('Average', 1);
/** The mean over each image. */
export const globalAveragePooling2d = global('Average', 2);
/** The mean over each volume. */
export const globalAveragePooling3d = global('Average', 3);
/** The maximum over all steps. */
export const globalMaxPooling1d = global('Max', 1);
/** The maximum over each image. */
export const globalMaxPooling2d = global('Max', 2);
/** The maximum over each volume. */
export const globalMaxPooling3d = global('Max', 3);
