/** Layer normalisation: normalises each row to mean 0 and variance 1, then scales and shifts. */

import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { add, moments, mul, rsqrt, sub } from '../ops/math.js';
import type { TensorLike } from '../tensor/tensor.js';
import { type Initializer, onesInitializer, zerosInitializer } from '../variables/initializers.js';
import { layerScope } from './layer-scope.js';
import type { Regularizer } from './regularizers.js';
import { knownSize, layerOptions, NORM_NAMES, type NormOptions, weight } from './weights.js';

export type LayerNormOptions = NormOptions;

/** Variables `layer_normalization/gamma` and `layer_normalization/beta`, of the axis's size. */
export function layerNorm(inputs: Operand, given: OrNull<LayerNormOptions> = {}): Output {
  const options = layerOptions('layerNorm', NORM_NAMES, given);
  const { axis = -1, epsilon = 1e-3, center = true, scale = true, trainable } = options;
  const x = asOutput(inputs);
  if (x.rank === null) throw invalid(`Layer layerNorm needs an input of known rank; got ${x}`);
  const at = axis < 0 ? axis + x.rank : axis;
  const size = knownSize('layerNorm', x, at);
  // The parameters lie along the axis and are broadcast over the others.
  const along = Array.from({ length: x.rank - at }, (_, i) => (i === 0 ? size : 1));
  const parameter = (
    name: string,
    initializer: Initializer | TensorLike,
    regularizer: Regularizer | undefined,
  ): Output => {
    const value = weight(name, {
      shape: [size],
      dtype: x.dtype,
      trainable,
      initializer,
      regularizer,
    }).toOutput();
    return along.length === 1 ? value : value.reshape(along);
  };
  return layerScope(x, 'layer_normalization', options, () => {
    const gamma = scale
      ? parameter('gamma', options.gammaInitializer ?? onesInitializer(), options.gammaRegularizer)
      : undefined;
    const beta = center
      ? parameter('beta', options.betaInitializer ?? zerosInitializer(), options.betaRegularizer)
      : undefined;
    const { mean, variance } = moments(x, { axis: at, keepDims: true });
    const inverse = rsqrt(add(variance, epsilon));
    const factor = gamma ? mul(inverse, gamma) : inverse;
    const normal = mul(sub(x, mean), factor);
    return beta ? add(normal, beta) : normal;
  });
}
