/** Dense layers, embeddings, normalization, and layers that change shapes. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import {
  type Activation,
  type ActivationName,
  activationOf,
} from '../../../tensorflow/layers/activations.js';
import { type BatchNormOptions, batchNorm as buildBatchNorm } from '../../../tensorflow/layers/batch-norm.js';
import { dense as buildDense, type DenseOptions } from '../../../tensorflow/layers/dense.js';
import { dropout as buildDropout, type DropoutOptions } from '../../../tensorflow/layers/dropout.js';
import { embedding as buildEmbedding, type EmbeddingOptions } from '../../../tensorflow/layers/embedding.js';
import { LAYER_OPTIONS } from '../../../tensorflow/layers/known-options.js';
import { layerNorm as buildLayerNorm, type LayerNormOptions } from '../../../tensorflow/layers/layer-norm.js';
import { flatten as buildFlatten } from '../../../tensorflow/layers/pooling.js';
import {
  concat,
  expandDims,
  reshape as reshapeOp,
  slice,
  tile,
  transpose,
} from '../../../tensorflow/ops/arrays.js';
import type { Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { any, cast, mul, notEqual } from '../../../tensorflow/ops/math.js';
import type { Shape } from '../../../tensorflow/tensor/shape.js';
import type { Layer } from '../layer.js';
import { define, type NamedLayer, type Options, plain, scoped } from './define.js';

const PASSES = { passesMask: true };

/** activation(x · kernel + bias). */
export const dense = (units: number, options: OrNull<Options<DenseOptions>> = {}): Layer =>
  scoped(
    'Dense',
    { units },
    options,
    LAYER_OPTIONS.dense,
    (x, own: DenseOptions) => buildDense(x, units, own),
    PASSES,
  );

/** [batch, …] to [batch, features]. */
export const flatten = (options: OrNull<NamedLayer> = {}): Layer =>
  plain('Flatten', {}, options, (x) => buildFlatten(x));

/** Gives each example this shape; one size may be -1. */
export const reshape = (targetShape: Shape, options: OrNull<NamedLayer> = {}): Layer =>
  plain('Reshape', { targetShape }, options, (x) => {
    if (!targetShape.includes(-1)) return reshapeOp(x, [-1, ...targetShape]);
    const rows = slice(raw.shape(x), [0], [1]);
    const width = (x.shape ?? [null])
      .slice(1)
      .reduce<number>((product, size) => product * (size ?? Number.NaN), 1);
    const others = targetShape.reduce((product, size) => (size === -1 ? product : product * size), 1);
    const missing = Number.isInteger(width / others) ? width / others : null;
    const known = targetShape.map((size) => (size === -1 ? missing : size));
    return reshapeOp(x, concat([rows, [...targetShape]], 0)).setShape([x.shape?.[0] ?? null, ...known]);
  });

/** [batch, features] to [batch, n, features]. */
export const repeatVector = (n: number, options: OrNull<NamedLayer> = {}): Layer =>
  plain('RepeatVector', { n }, options, (x) => tile(expandDims(x, 1), [1, n, 1]));

/** Reorders the axes of each example, which are counted from 1. */
export const permute = (dims: readonly number[], options: OrNull<NamedLayer> = {}): Layer =>
  plain('Permute', { dims }, options, (x) => transpose(x, [0, ...dims]));

/** Sets elements to 0 with this probability, in training only. */
export const dropout = (rate = 0.5, options: OrNull<Omit<Options<DropoutOptions>, 'rate'>> = {}): Layer =>
  define<Omit<Options<DropoutOptions>, 'rate'>>(
    {
      className: 'Dropout',
      args: { rate },
      options,
      known: { seed: true, noiseShape: true },
      body: ([x], { training }, own: object) => buildDropout(x as Output, { ...own, rate, training }),
    },
    PASSES,
  );

export interface EmbeddingLayerOptions extends EmbeddingOptions {
  /** Whether the id 0 stands for no data, which later layers skip. Default: false. */
  readonly maskZero?: boolean;
}

/** `rows` vectors of `size` elements, looked up by number. */
export const embedding = (
  rows: number,
  size: number,
  options: OrNull<Options<EmbeddingLayerOptions>> = {},
): Layer =>
  define<Options<EmbeddingLayerOptions>>(
    {
      className: 'Embedding',
      args: { inputDim: rows, outputDim: size },
      options,
      known: { ...LAYER_OPTIONS.embedding, maskZero: true },
      body: ([x], { name, reuse }, { maskZero = false, ...own }: EmbeddingLayerOptions) => {
        const given = x as Output;
        const ids = given.dtype === 'int32' || given.dtype === 'int64' ? given : cast(given, 'int32');
        const output = buildEmbedding(ids, rows, size, { ...own, name, reuse });
        return { outputs: [output], masks: [maskZero ? notEqual(ids, 0) : undefined] };
      },
    },
    { opensScope: true },
  );

/** Steps whose features all equal this value stand for no data, which later layers skip. Default: 0. */
export const masking = (maskValue = 0, options: OrNull<NamedLayer> = {}): Layer =>
  plain('Masking', { maskValue }, options, (x) => {
    const present = any(notEqual(x, maskValue), -1);
    return { outputs: [mul(x, cast(expandDims(present, -1), x.dtype))], masks: [present] };
  });

export const batchNorm = (options: OrNull<Options<BatchNormOptions>> = {}): Layer =>
  define<Options<BatchNormOptions>>(
    {
      className: 'BatchNormalization',
      options,
      known: LAYER_OPTIONS.batchNorm,
      body: ([x], { name, reuse, training, masks: [mask] }, own: BatchNormOptions) => {
        if (mask && training)
          throw new ShoalError(
            'SHOAL_UNSUPPORTED',
            `Layer ${name} cannot normalize batches with masked steps`,
            {
              hint: 'Use layerNorm, whose result does not depend on other steps.',
            },
          );
        return buildBatchNorm(x as Output, { movingVariance: 'population', ...own, name, reuse, training });
      },
    },
    { opensScope: true, ...PASSES },
  );

export const layerNorm = (options: OrNull<Options<LayerNormOptions>> = {}): Layer =>
  scoped(
    'LayerNormalization',
    {},
    options,
    LAYER_OPTIONS.layerNorm,
    (x, own: LayerNormOptions) => buildLayerNorm(x, own),
    PASSES,
  );

export const activation = (given: ActivationName | Activation, options: OrNull<NamedLayer> = {}): Layer => {
  const body = activationOf(given);
  return plain('Activation', { activation: given }, options, body, PASSES);
};

/** Any function of ops. Variables that it makes with `tf.variable` or `tf.layers` belong to the layer. */
export const lambda = (body: (x: Output) => Operand, options: OrNull<NamedLayer> = {}): Layer =>
  plain('Lambda', {}, options, body, { saved: false });
