/** Pooling over images [batch, height, width, channels], and flattening. */
import type { OrNull } from '../../base/errors/null-options.js';
import type { Names } from '../../base/errors/option-names.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { concat, reshape, slice } from '../ops/arrays.js';
import { asOutput, type Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import { avgPool, maxPool, type Padding, type Pair } from '../ops/nn.js';
import { Tensor } from '../tensor/tensor.js';
import { checkRank, layerOptions, OP_NAMES } from './weights.js';

export interface PoolingOptions extends OpOptions {
  /** The padding of the image; default: 'valid'. */
  readonly padding?: Padding;
}

export const POOLING_NAMES: Names<PoolingOptions> = { ...OP_NAMES, padding: true };

const pooling =
  (layer: string, name: string, pool: typeof maxPool) =>
  (inputs: Operand, size: Pair = 2, strides: Pair = size, given: OrNull<PoolingOptions> = {}): Output => {
    const options = layerOptions(layer, POOLING_NAMES, given);
    const { padding = 'valid', ...rest } = options;
    const x = asOutput(inputs);
    checkRank(layer, x, 4);
    return pool(x, { size, strides, padding, name, ...rest });
  };

/** The maximum of each window. */
export const maxPooling2d = pooling('maxPooling2d', 'max_pooling2d', maxPool);
/** The mean of each window, over elements inside the image only. */
export const averagePooling2d = pooling('averagePooling2d', 'average_pooling2d', avgPool);

/** Reshapes [batch, …] to [batch, features]. */
export function flatten(inputs: Operand, given: OrNull<OpOptions> = {}): Output {
  const options = layerOptions('flatten', OP_NAMES, given);
  const x = asOutput(inputs);
  const named = { name: 'flatten', ...options };
  if (x.shape === null) return reshape(x, rowsOf(x), named);
  const [batch = 1, ...others] = x.shape;
  const known = others.every((size) => size !== null);
  const width = known ? others.reduce<number>((product, size) => product * (size as number), 1) : null;
  // With a size of 0, -1 would be ambiguous: use the run-time shape.
  if (width === 0 && batch === null) return reshape(x, rowsOf(x), named).setShape([null, 0]);
  if (width !== null) return reshape(x, [batch ?? -1, width], named);
  if (batch !== null && batch > 0) return reshape(x, [batch, -1], named);
  return reshape(x, rowsOf(x), named).setShape([batch, null]);
}

function rowsOf(x: Output): Output {
  return concat([slice(raw.shape(x), [0], [1]), Tensor.of(Int32Array.of(-1))], 0);
}
