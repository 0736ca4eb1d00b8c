/** A fully connected layer: activation(x · kernel + bias), over the last axis of x. */
import type { Output } from '../graph/operation.js';
import { concat, reshape, slice } from '../ops/arrays.js';
import { asOutput, type Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import { matMul } from '../ops/math.js';
import { biasAdd } from '../ops/nn.js';
import type { PartialShape } from '../tensor/shape.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';
import { type Initializer, zerosInitializer } from '../variables/initializers.js';
import { layerScope } from './layer-scope.js';
import type { Regularizer } from './regularizers.js';
import { type Activation, checkCount, knownSize, type LayerOptions, weight } from './weights.js';

export interface DenseOptions extends LayerOptions {
  readonly activation?: Activation | undefined;
  readonly useBias?: boolean | undefined;
  /** Glorot's uniform when neither this nor the variable scope says otherwise. */
  readonly kernelInitializer?: Initializer | TensorLike | undefined;
  readonly biasInitializer?: Initializer | TensorLike | undefined;
  readonly kernelRegularizer?: Regularizer | undefined;
  readonly biasRegularizer?: Regularizer | undefined;
}

/** Variables `dense/kernel` [inputs, units] and `dense/bias` [units]. */
export function dense(inputs: Operand, units: number, options: DenseOptions = {}): Output {
  checkCount('dense', 'units', units);
  const x = asOutput(inputs);
  const features = knownSize('dense', x, -1);
  return layerScope(x, 'dense', options, () => {
    const { dtype } = x;
    const { trainable } = options;
    const kernel = weight('kernel', {
      shape: [features, units],
      dtype,
      trainable,
      initializer: options.kernelInitializer,
      regularizer: options.kernelRegularizer,
    });
    let y = product(x, kernel.toOutput(), features, units);
    if (options.useBias ?? true) {
      const bias = weight('bias', {
        shape: [units],
        dtype,
        trainable,
        initializer: options.biasInitializer ?? zerosInitializer(),
        regularizer: options.biasRegularizer,
      });
      y = biasAdd(y, bias);
    }
    return options.activation ? asOutput(options.activation(y)) : y;
  });
}

/** x · kernel; axes before the last one are rows of one matrix. */
function product(x: Output, kernel: Output, features: number, units: number): Output {
  if (x.rank === 2) return matMul(x, kernel);
  const rows = matMul(reshape(x, [-1, features]), kernel);
  const shape = x.shape as Exclude<PartialShape, null>;
  const outer = shape.slice(0, -1);
  if (outer.filter((size) => size === null).length <= 1) {
    return reshape(rows, [...outer.map((size) => size ?? -1), units]);
  }
  const sizes = slice(raw.shape(x), [0], [outer.length]);
  return reshape(rows, concat([sizes, Tensor.of(Int32Array.of(units))], 0)).setShape([...outer, units]);
}
