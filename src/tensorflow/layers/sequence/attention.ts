/** Attention with several heads: each position of the query is a mean of the values, weighted by how well keys match. */
import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Names } from '../../../base/errors/option-names.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, slice } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { add, cast, greaterEqual, logicalAnd, mul, sub } from '../../ops/math.js';
import { softmax } from '../../ops/nn.js';
import { Tensor, type TensorLike } from '../../tensor/tensor.js';
import { type Initializer, zerosInitializer } from '../../variables/initializers.js';
import { variableScope } from '../../variables/variable-scope.js';
import { dropout as drop } from '../dropout.js';
import { layerScope } from '../layer-scope.js';
import type { Regularizer } from '../regularizers.js';
import {
  checkCount,
  checkRank,
  knownSize,
  LAYER_NAMES,
  type LayerOptions,
  layerOptions,
  weight,
} from '../weights.js';

export interface AttentionOptions extends LayerOptions {
  /** The size of each head for queries and keys. */
  readonly keyDim?: number;
  /** The size of each head for values; default: `keyDim`. */
  readonly valueDim?: number;
  /** The size of the result; default: that of the query. */
  readonly outputSize?: number;
  /** Whether to add biases; default: true. */
  readonly useBias?: boolean;
  /** Whether a position attends only to itself and earlier ones. Default: false. */
  readonly useCausalMask?: boolean;
  /** The fraction of weights to drop in training; default: 0. */
  readonly dropout?: number;
  /** Whether weights are dropped; default: false. */
  readonly training?: boolean;
  /** Whether each query attends to each value, broadcast to [batch, queries, values]; default: all do. */
  readonly mask?: Output | undefined;
  /** The initializer of the kernels, or their initial value; default: Glorot uniform. */
  readonly kernelInitializer?: Initializer | TensorLike;
  /** The initializer of the biases, or their initial value; default: zeros. */
  readonly biasInitializer?: Initializer | TensorLike;
  /** The penalty on the kernels; default: none. */
  readonly kernelRegularizer?: Regularizer;
  /** The penalty on the biases; default: none. */
  readonly biasRegularizer?: Regularizer;
}

export const ATTENTION_NAMES: Names<AttentionOptions> = {
  ...LAYER_NAMES,
  keyDim: true,
  valueDim: true,
  outputSize: true,
  useBias: true,
  useCausalMask: true,
  dropout: true,
  training: true,
  mask: true,
  kernelInitializer: true,
  biasInitializer: true,
  kernelRegularizer: true,
  biasRegularizer: true,
};

/** Added to the scores of positions that are masked, as in Keras. */
const MASKED = -1e9;

/**
 * Over [batch, positions, features]. Variables `query/kernel` [features, heads, size], `key/…`, `value/…` and
 * `attention_output/kernel` [heads, size, features], each with a `bias`, under `multi_head_attention/`.
 */
export function multiHeadAttention(
  query: Operand,
  value: Operand,
  key: Operand,
  heads: number,
  given: OrNull<AttentionOptions>,
): Output {
  const options = layerOptions('multiHeadAttention', ATTENTION_NAMES, given);
  const { keyDim, useBias = true, useCausalMask = false, dropout = 0, training = false, trainable } = options;
  if (keyDim === undefined) throw invalid('Layer multiHeadAttention needs keyDim, the size of each head');
  const { valueDim = keyDim } = options;
  for (const [what, count] of Object.entries({ numHeads: heads, keyDim, valueDim }))
    checkCount('multiHeadAttention', what, count);
  const [q, v, k] = [asOutput(query), asOutput(value), asOutput(key)];
  for (const input of [q, v, k]) checkRank('multiHeadAttention', input, 3);
  return layerScope(q, 'multi_head_attention', options, () => {
    const project = (
      name: string,
      x: Output,
      equation: string,
      kernelShape: readonly number[],
      biasShape: readonly number[],
    ): Output =>
      variableScope(name, () => {
        const make = (which: 'kernel' | 'bias', shape: readonly number[], fallback?: Initializer) =>
          weight(which, {
            shape,
            dtype: x.dtype,
            trainable,
            initializer: options[`${which}Initializer`] ?? fallback,
            regularizer: options[`${which}Regularizer`],
          }).toOutput();
        const y = raw.einsum([x, make('kernel', kernelShape)], { equation });
        return useBias ? add(y, make('bias', biasShape, zerosInitializer())) : y;
      });
    const toHeads = (name: string, x: Output, size: number) => {
      const features = knownSize('multiHeadAttention', x, -1);
      return project(name, x, 'abc,cde->abde', [features, heads, size], [heads, size]);
    };
    const queries = mul(toHeads('query', q, keyDim), 1 / Math.sqrt(keyDim));
    const keys = toHeads('key', k, keyDim);
    const values = toHeads('value', v, valueDim);
    let scores: Output = raw.einsum([keys, queries], { equation: 'aecd,abcd->acbe' });
    const masks = [
      ...(options.mask ? [expandDims(options.mask, 1)] : []),
      ...(useCausalMask ? [causal(q, k)] : []),
    ];
    const [mask] = masks.length > 1 ? [logicalAnd(masks[0] as Output, masks[1] as Output)] : masks;
    if (mask) scores = add(scores, mul(sub(1, cast(mask, scores.dtype)), MASKED));
    let weights = softmax(scores, -1);
    if (training && dropout > 0) weights = drop(weights, { rate: dropout, training });
    const mixed = raw.einsum([weights, values], { equation: 'acbe,aecd->abcd' });
    const size = options.outputSize ?? knownSize('multiHeadAttention', q, -1);
    const y = project('attention_output', mixed, 'abcd,cde->abe', [heads, valueDim, size], [size]);
    return y.setShape([q.shape?.[0] ?? null, q.shape?.[1] ?? null, size]);
  });
}

/** [1, 1, queries, values]: whether the value is not after the query. */
function causal(q: Output, k: Output): Output {
  const numbers = (x: Output, axis: number): Output => {
    const count = slice(raw.shape(x), [1], [1]).reshape([]) as Output<'int32'>;
    const [from, by] = [Tensor.of(0, { dtype: 'int32' }), Tensor.of(1, { dtype: 'int32' })];
    return expandDims(raw.range(from, count, by), axis);
  };
  return expandDims(expandDims(greaterEqual(numbers(q, 1), numbers(k, 0)), 0), 0);
}
