/** Convolution over images [batch, height, width, channels]. */
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { biasAdd, conv2d as convolve, type Padding, type Pair } from '../ops/nn.js';
import type { TensorLike } from '../tensor/tensor.js';
import { type Initializer, zerosInitializer } from '../variables/initializers.js';
import { layerScope } from './layer-scope.js';
import type { Regularizer } from './regularizers.js';
import { type Activation, checkCount, checkRank, knownSize, type LayerOptions, weight } from './weights.js';

export interface Conv2dOptions extends LayerOptions {
  readonly strides?: Pair | undefined;
  readonly padding?: Padding | undefined;
  readonly dilations?: Pair | undefined;
  readonly activation?: Activation | undefined;
  readonly useBias?: boolean | undefined;
  readonly kernelInitializer?: Initializer | TensorLike | undefined;
  readonly biasInitializer?: Initializer | TensorLike | undefined;
  readonly kernelRegularizer?: Regularizer | undefined;
  readonly biasRegularizer?: Regularizer | undefined;
}

/** Variables `conv2d/kernel` [height, width, channels, filters] and `conv2d/bias` [filters]; padding 'valid'. */
export function conv2d(inputs: Operand, filters: number, size: Pair, options: Conv2dOptions = {}): Output {
  checkCount('conv2d', 'filters', filters);
  const window = typeof size === 'number' ? [size, size] : size;
  for (const side of window) checkCount('conv2d', 'the size of the kernel', side);
  const x = asOutput(inputs);
  checkRank('conv2d', x, 4);
  const channels = knownSize('conv2d', x, -1);
  return layerScope(x, 'conv2d', options, () => {
    const { trainable } = options;
    const kernel = weight('kernel', {
      shape: [...window, channels, filters],
      dtype: x.dtype,
      trainable,
      initializer: options.kernelInitializer,
      regularizer: options.kernelRegularizer,
    });
    let y = convolve(x, kernel, {
      strides: options.strides ?? 1,
      padding: options.padding ?? 'valid',
      dilations: options.dilations ?? 1,
    });
    if (options.useBias ?? true) {
      const bias = weight('bias', {
        shape: [filters],
        dtype: x.dtype,
        trainable,
        initializer: options.biasInitializer ?? zerosInitializer(),
        regularizer: options.biasRegularizer,
      });
      y = biasAdd(y, bias);
    }
    return options.activation ? asOutput(options.activation(y)) : y;
  });
}
