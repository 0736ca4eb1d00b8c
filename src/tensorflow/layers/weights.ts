/** Shared by the layers: options, weights, bias and activation. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { checkNames, type Names } from '../../base/errors/option-names.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { asOutput } from '../ops/build.js';
import { biasAdd } from '../ops/nn.js';
import type { DType } from '../tensor/dtype.js';
import type { Shape } from '../tensor/shape.js';
import type { TensorLike } from '../tensor/tensor.js';
import { type Initializer, zerosInitializer } from '../variables/initializers.js';
import type { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import { getVariable } from '../variables/variable-scope.js';
import { type Activation, type ActivationName, activationOf } from './activations.js';
import type { LayerScopeOptions } from './layer-scope.js';
import { type Regularizer, regularize } from './regularizers.js';

export interface LayerOptions extends LayerScopeOptions {
  /** Whether optimizers update the layer's variables. Default: true. */
  readonly trainable?: boolean;
}

/** Options of a layer that multiplies by a kernel, adds a bias, and applies an activation. */
export interface AffineOptions extends LayerOptions {
  /** The function applied to the result, or its name; default: none. */
  readonly activation?: Activation | ActivationName;
  /** Whether to add a bias; default: true. */
  readonly useBias?: boolean;
  /** The initializer of the kernel, or its initial value; default: the variable scope's, else Glorot uniform. */
  readonly kernelInitializer?: Initializer | TensorLike;
  /** The initializer of the bias, or its initial value; default: zeros. */
  readonly biasInitializer?: Initializer | TensorLike;
  /** The penalty on the kernel; default: none. */
  readonly kernelRegularizer?: Regularizer;
  /** The penalty on the bias; default: none. */
  readonly biasRegularizer?: Regularizer;
}

/** Options of a layer that normalises along an axis, then scales by `gamma` and shifts by `beta`. */
export interface NormOptions extends LayerOptions {
  /** The axis to normalise; default: the last axis. */
  readonly axis?: number;
  /** Added to the variance before dividing. Default: 1e-3. */
  readonly epsilon?: number;
  /** Whether to add `beta`. Default: true. */
  readonly center?: boolean;
  /** Whether to multiply by `gamma`. Default: true. */
  readonly scale?: boolean;
  /** The initializer of `beta`, or its initial value; default: zeros. */
  readonly betaInitializer?: Initializer | TensorLike;
  /** The initializer of `gamma`, or its initial value; default: ones. */
  readonly gammaInitializer?: Initializer | TensorLike;
  /** The penalty on `beta`; default: none. */
  readonly betaRegularizer?: Regularizer;
  /** The penalty on `gamma`; default: none. */
  readonly gammaRegularizer?: Regularizer;
}

export const OP_NAMES: Names<OpOptions> = { name: true, device: true, controlInputs: true };
export const LAYER_NAMES: Names<LayerOptions> = { name: true, reuse: true, trainable: true };
export const AFFINE_NAMES: Names<AffineOptions> = {
  ...LAYER_NAMES,
  activation: true,
  useBias: true,
  kernelInitializer: true,
  biasInitializer: true,
  kernelRegularizer: true,
  biasRegularizer: true,
};
export const NORM_NAMES: Names<NormOptions> = {
  ...LAYER_NAMES,
  axis: true,
  epsilon: true,
  center: true,
  scale: true,
  betaInitializer: true,
  gammaInitializer: true,
  betaRegularizer: true,
  gammaRegularizer: true,
};
/** The options of a layer without those that are null; throws if one does not exist. */
export function layerOptions<O extends object>(layer: string, names: Names<O>, given: OrNull<O>): O {
  const options = withoutNull<O>(given);
  checkNames(options, names, (name) => `Layer ${layer} has an unknown option '${name}'`);
  return options;
}

/** activation(multiply(kernel) + bias), with the variables `kernel` and `bias`, of size `units`. */
export function affine(
  kernelShape: Shape,
  dtype: DType,
  options: AffineOptions,
  multiply: (kernel: Output) => Output,
  units = kernelShape.at(-1) as number,
): Output {
  const { trainable } = options;
  const kernel = weight('kernel', {
    shape: kernelShape,
    dtype,
    trainable,
    initializer: options.kernelInitializer,
    regularizer: options.kernelRegularizer,
  });
  return withBias(multiply(kernel.toOutput()), units, options);
}

/** activation(x + bias), with the variable `bias`, of size `units`. */
export function withBias(x: Output, units: number, options: AffineOptions): Output {
  const { trainable, useBias = true, activation } = options;
  let y = x;
  if (useBias) {
    const bias = weight('bias', {
      shape: [units],
      dtype: x.dtype,
      trainable,
      initializer: options.biasInitializer ?? zerosInitializer(),
      regularizer: options.biasRegularizer,
    });
    y = biasAdd(y, bias);
  }
  return activation ? asOutput(activationOf(activation)(y)) : y;
}

export interface WeightOptions {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly initializer?: Initializer | TensorLike;
  readonly regularizer?: Regularizer;
  readonly trainable?: boolean;
}

/** A variable of the layer being built; partitioned if the scope has a partitioner. */
export function weight(name: string, options: WeightOptions): Variable | PartitionedVariable {
  const { shape, dtype, initializer, regularizer, trainable = true } = options;
  const made = getVariable(name, {
    shape,
    dtype,
    trainable,
    initializer,
  });
  if (regularizer) regularize(made, regularizer);
  return made;
}

/** The static size of an axis, which determines the shape of the layer's weights. */
export function knownSize(layer: string, x: Output, axis: number): number {
  const size = x.shape?.at(axis);
  if (size === undefined || size === null) {
    throw invalid(`Layer ${layer}: the size of axis ${axis} of ${x} must be known`, {
      hint: 'Set the shape of the placeholder, or call setShape on the output.',
    });
  }
  return size;
}

export function checkRank(layer: string, x: Output, rank: number): void {
  if (x.rank !== null && x.rank !== rank) {
    throw invalid(`Layer ${layer} needs an input of rank ${rank}; ${x} has rank ${x.rank}`);
  }
}

/** Checks a positive integer: units, filters, window sizes. */
export function checkCount(layer: string, what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) {
    throw invalid(`Layer ${layer}: ${what} must be a positive integer; got ${value}`);
  }
}
