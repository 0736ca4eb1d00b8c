/** What the layers share: how they are named, what makes their weights, what follows them. */
import { invalid } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import { asOutput, type Operand } from '../ops/build.js';
import { biasAdd } from '../ops/nn.js';
import type { DType } from '../tensor/dtype.js';
import type { Shape } from '../tensor/shape.js';
import type { TensorLike } from '../tensor/tensor.js';
import { type Initializer, zerosInitializer } from '../variables/initializers.js';
import type { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import { getVariable } from '../variables/variable-scope.js';
import type { LayerScopeOptions } from './layer-scope.js';
import { type Regularizer, regularize } from './regularizers.js';

export interface LayerOptions extends LayerScopeOptions {
  /** Whether optimizers change the layer's variables. Default: true. */
  readonly trainable?: boolean | undefined;
}

/** What is applied to a layer's result: `tf.relu`, or any function of yours. */
export type Activation = (x: Output) => Operand;

/** Options of a layer that multiplies by a kernel, adds a bias, and applies an activation. */
export interface AffineOptions extends LayerOptions {
  /** Default: none. */
  readonly activation?: Activation | undefined;
  /** Default: true. */
  readonly useBias?: boolean | undefined;
  /** Default: that of the variable scope, else Glorot's uniform. */
  readonly kernelInitializer?: Initializer | TensorLike | undefined;
  /** Default: zeros. */
  readonly biasInitializer?: Initializer | TensorLike | undefined;
  readonly kernelRegularizer?: Regularizer | undefined;
  readonly biasRegularizer?: Regularizer | undefined;
}

/** Options of a layer that normalises along an axis, then scales by `gamma` and shifts by `beta`. */
export interface NormOptions extends LayerOptions {
  /** Default: the last axis. */
  readonly axis?: number | undefined;
  /** Keeps the division finite. Default: 1e-3. */
  readonly epsilon?: number | undefined;
  /** Whether there is a `beta`. Default: true. */
  readonly center?: boolean | undefined;
  /** Whether there is a `gamma`. Default: true. */
  readonly scale?: boolean | undefined;
  /** Default: zeros. */
  readonly betaInitializer?: Initializer | TensorLike | undefined;
  /** Default: ones. */
  readonly gammaInitializer?: Initializer | TensorLike | undefined;
  readonly betaRegularizer?: Regularizer | undefined;
  readonly gammaRegularizer?: Regularizer | undefined;
}

/** activation(multiply(kernel) + bias), with the variables `kernel` and `bias`. */
export function affine(
  kernelShape: Shape,
  dtype: DType,
  options: AffineOptions,
  multiply: (kernel: Output) => Output,
): Output {
  const { trainable, useBias = true, activation } = options;
  const kernel = weight('kernel', {
    shape: kernelShape,
    dtype,
    trainable,
    initializer: options.kernelInitializer,
    regularizer: options.kernelRegularizer,
  });
  let y = multiply(kernel.toOutput());
  if (useBias) {
    const bias = weight('bias', {
      shape: [kernelShape.at(-1) as number],
      dtype,
      trainable,
      initializer: options.biasInitializer ?? zerosInitializer(),
      regularizer: options.biasRegularizer,
    });
    y = biasAdd(y, bias);
  }
  return activation ? asOutput(activation(y)) : y;
}

export interface WeightOptions {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly initializer?: Initializer | TensorLike | undefined;
  readonly regularizer?: Regularizer | undefined;
  readonly trainable?: boolean | undefined;
}

/** A variable of the layer that is being built; in parts where the scope has a partitioner. */
export function weight(name: string, options: WeightOptions): Variable | PartitionedVariable {
  const { shape, dtype, initializer, regularizer, trainable = true } = options;
  const made = getVariable(name, {
    shape,
    dtype,
    trainable,
    ...(initializer === undefined ? {} : { initializer }),
  });
  if (regularizer) regularize(made, regularizer);
  return made;
}

/** The size of an axis, which the weights of a layer must know when the graph is built. */
export function knownSize(layer: string, x: Output, axis: number): number {
  const size = x.shape?.at(axis);
  if (size === undefined || size === null) {
    throw invalid(`Layer ${layer} needs to know the size of axis ${axis} of ${x}`, {
      hint: 'Give the placeholder a shape, or call setShape on the output.',
    });
  }
  return size;
}

export function checkRank(layer: string, x: Output, rank: number): void {
  if (x.rank !== null && x.rank !== rank) {
    throw invalid(`Layer ${layer} takes tensors of ${rank} axes; ${x} has ${x.rank}`);
  }
}

/** A whole number from 1: units, filters, window sizes. */
export function checkCount(layer: string, what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) {
    throw invalid(`Layer ${layer}: ${what} must be a whole number from 1, it is ${value}`);
  }
}
