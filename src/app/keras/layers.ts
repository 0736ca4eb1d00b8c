/** `tf.keras.layers`: the layers of `tf.layers` as elements of a model. */

import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { type Activation, type ActivationName, activationOf } from '../../tensorflow/layers/activations.js';
import { type BatchNormOptions, batchNorm as buildBatchNorm } from '../../tensorflow/layers/batch-norm.js';
import { conv2d as buildConv2d, type Conv2dOptions } from '../../tensorflow/layers/convolution.js';
import { dense as buildDense, type DenseOptions } from '../../tensorflow/layers/dense.js';
import { dropout as buildDropout, type DropoutOptions } from '../../tensorflow/layers/dropout.js';
import { embedding as buildEmbedding, type EmbeddingOptions } from '../../tensorflow/layers/embedding.js';
import { layerNorm as buildLayerNorm, type LayerNormOptions } from '../../tensorflow/layers/layer-norm.js';
import {
  averagePooling2d as buildAveragePooling2d,
  flatten as buildFlatten,
  maxPooling2d as buildMaxPooling2d,
  type PoolingOptions,
} from '../../tensorflow/layers/pooling.js';
import { concat, reshape as reshapeOp } from '../../tensorflow/ops/arrays.js';
import { asOutput, type Operand } from '../../tensorflow/ops/build.js';
import { addN } from '../../tensorflow/ops/math.js';
import type { Pair } from '../../tensorflow/ops/nn.js';
import type { Shape } from '../../tensorflow/tensor/shape.js';
import { checkLayer } from './known-options.js';
import { Layer, type LayerBody, type LayerCall } from './layer.js';

export interface NamedLayer {
  /** The name of the layer and of its variables; default: the kind of the layer, numbered. */
  readonly name?: string;
}

/** The options of a layer function, with the activation by name, and without those that the model decides. */
export type Options<O> = Omit<O, 'activation' | 'name' | 'reuse' | 'training'> &
  NamedLayer &
  (O extends { readonly activation?: ActivationName | Activation }
    ? { /** A function or its name; default: none. */ readonly activation?: ActivationName | Activation }
    : unknown);

type Body = (x: Output, call: LayerCall & { readonly reuse: 'auto' }) => Operand;

/** The body of a layer with one input. */
const unary =
  (body: Body): LayerBody =>
  (inputs, call) => {
    const [x, ...others] = inputs;
    if (!x || others.length > 0)
      throw invalid(`Layer ${call.name} has one input, but is applied to ${inputs.length}`);
    return asOutput(body(x, { ...call, reuse: 'auto' }));
  };

/** A layer of `tf.layers`, which takes the name of its variable scope. */
const layer = (kind: string, options: OrNull<NamedLayer>, body: Body): Layer => {
  checkLayer(kind, options);
  return new Layer({ kind, name: options.name ?? undefined, body: unary(body), opensScope: true });
};

/** A layer of a function, which may create variables. */
const functionLayer = (kind: string, options: OrNull<NamedLayer>, body: (x: Output) => Operand): Layer => {
  checkLayer(kind, options);
  return new Layer({ kind, name: options.name ?? undefined, body: unary(body) });
};

/** A layer with several inputs. */
const joining = (
  kind: string,
  options: OrNull<NamedLayer>,
  body: (inputs: readonly Output[]) => Output,
): Layer => {
  checkLayer(kind, options);
  return new Layer({ kind, name: options.name ?? undefined, body });
};

/** The options of a layer function, with the activation as a function. */
const resolved = <O extends { readonly activation?: ActivationName | Activation }>({
  activation: given,
  ...others
}: OrNull<O>) => ({ ...others, ...(given != null && { activation: activationOf(given) }) });

/** activation(x · kernel + bias). */
export const dense = (units: number, options: OrNull<Options<DenseOptions>> = {}): Layer => {
  const own = resolved(options);
  return layer('dense', options, (x, { name, reuse }) => buildDense(x, units, { ...own, name, reuse }));
};

export const conv2d = (filters: number, size: Pair, options: OrNull<Options<Conv2dOptions>> = {}): Layer => {
  const own = resolved(options);
  return layer('conv2d', options, (x, { name, reuse }) =>
    buildConv2d(x, filters, size, { ...own, name, reuse }),
  );
};

/** Default: windows of 2 by 2 that do not overlap. */
export const maxPooling2d = (
  size: Pair = 2,
  strides: Pair = size,
  options: OrNull<Options<PoolingOptions>> = {},
): Layer =>
  layer('max_pooling2d', options, (x, { name }) => buildMaxPooling2d(x, size, strides, { ...options, name }));

/** Default: windows of 2 by 2 that do not overlap. */
export const averagePooling2d = (
  size: Pair = 2,
  strides: Pair = size,
  options: OrNull<Options<PoolingOptions>> = {},
): Layer =>
  layer('average_pooling2d', options, (x, { name }) =>
    buildAveragePooling2d(x, size, strides, { ...options, name }),
  );

/** [batch, …] to [batch, features]. */
export const flatten = (options: OrNull<NamedLayer> = {}): Layer =>
  layer('flatten', options, (x, { name }) => buildFlatten(x, { name }));

/** Gives each example this shape; one size may be -1. */
export const reshape = (shape: Shape, options: OrNull<NamedLayer> = {}): Layer =>
  layer('reshape', options, (x, { name }) => reshapeOp(x, [-1, ...shape], { name }));

/** Sets elements to 0 with this probability, in training only. */
export const dropout = (rate = 0.5, options: OrNull<Omit<Options<DropoutOptions>, 'rate'>> = {}): Layer =>
  layer('dropout', options, (x, { name, training }) => buildDropout(x, { ...options, rate, training, name }));

/** `rows` vectors of `size` elements, looked up by number. */
export const embedding = (
  rows: number,
  size: number,
  options: OrNull<Options<EmbeddingOptions>> = {},
): Layer =>
  layer('embedding', options, (x, { name, reuse }) =>
    buildEmbedding(x, rows, size, { ...options, name, reuse }),
  );

export const batchNorm = (options: OrNull<Options<BatchNormOptions>> = {}): Layer =>
  layer('batch_normalization', options, (x, { name, reuse, training }) =>
    buildBatchNorm(x, { ...options, name, reuse, training }),
  );

export const layerNorm = (options: OrNull<Options<LayerNormOptions>> = {}): Layer =>
  layer('layer_normalization', options, (x, { name, reuse }) =>
    buildLayerNorm(x, { ...options, name, reuse }),
  );

export const activation = (given: ActivationName | Activation, options: OrNull<NamedLayer> = {}): Layer => {
  const body = activationOf(given);
  return functionLayer('activation', options, body);
};

/** Any function of ops. Variables that it makes with `tf.variable` or `tf.layers` belong to the layer. */
export const lambda = (body: (x: Output) => Operand, options: OrNull<NamedLayer> = {}): Layer =>
  functionLayer('lambda', options, body);

/** Joins its inputs along the last axis. */
export const concatenate = (options: OrNull<NamedLayer> = {}): Layer =>
  joining('concatenate', options, (inputs) => concat([...inputs], -1));

/** The sum of its inputs, which have the same shape. */
export const add = (options: OrNull<NamedLayer> = {}): Layer =>
  joining('add', options, (inputs) => addN([...inputs]));
