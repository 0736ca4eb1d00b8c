/** A fully connected layer: activation(x · kernel + bias), over the last axis of x. */
import type { OrNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { concat, reshape, slice } from '../ops/arrays.js';
import { asOutput, type Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import { matMul } from '../ops/math.js';
import type { PartialShape } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { layerScope } from './layer-scope.js';
import { AFFINE_NAMES, type AffineOptions, affine, checkCount, knownSize, layerOptions } from './weights.js';

export type DenseOptions = AffineOptions;

/** Variables `dense/kernel` [inputs, units] and `dense/bias` [units]. */
export function dense(inputs: Operand, units: number, given: OrNull<DenseOptions> = {}): Output {
  const options = layerOptions('dense', AFFINE_NAMES, given);
  checkCount('dense', 'units', units);
  const x = asOutput(inputs);
  const features = knownSize('dense', x, -1);
  return layerScope(x, 'dense', options, () =>
    affine([features, units], x.dtype, options, (kernel) => product(x, kernel, features, units)),
  );
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
