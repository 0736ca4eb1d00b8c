/** What the layers share: how they are named, what makes their weights, what follows them. */
import { invalid } from '../errors/errors.js';
import type { Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import type { DType } from '../tensor/dtype.js';
import type { Shape } from '../tensor/shape.js';
import type { TensorLike } from '../tensor/tensor.js';
import type { Initializer } from '../variables/initializers.js';
import type { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import { getVariable } from '../variables/variable-scope.js';
import type { LayerScopeOptions } from './layer-scope.js';
import { type Regularizer, regularize } from './regularizers.js';

export interface LayerOptions extends LayerScopeOptions {
  /** Whether optimizers change the layer's variables; they do unless told otherwise. */
  readonly trainable?: boolean | undefined;
}

/** What is applied to a layer's result: `tf.relu`, or any function of yours. */
export type Activation = (x: Output) => Operand;

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
