/**
 * The features of one batch, and what columns make of them. Each column is transformed once, however many other columns
 * use it.
 */
import { invalid } from '../../base/errors/errors.js';
import { closestName } from '../../base/errors/option-names.js';
import { currentGraph } from '../../tensorflow/graph/graph.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import { concat } from '../../tensorflow/ops/arrays.js';
import { asOutput, type Operand } from '../../tensorflow/ops/build.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { isInteger } from '../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';

/** The features of a batch by name, such as the result of `tf.parseExample`. */
export type FeatureValues = Readonly<Record<string, Operand | SparseTensor>>;

export class FeatureTensors {
  readonly #values: FeatureValues;
  readonly #features = new Map<string, Output | SparseTensor>();
  readonly #made = new Map<object, unknown>();

  constructor(values: FeatureValues) {
    if (typeof values !== 'object' || values === null || values instanceof SparseTensor || 'op' in values)
      throw invalid('The features of columns are an object with a tensor for each key', {
        hint: 'For example { age, tags }, or the result of tf.parseExample.',
      });
    this.#values = values;
  }

  /** What a column makes of the features. */
  once<T>(column: object, make: () => T): T {
    if (!this.#made.has(column)) this.#made.set(column, make());
    return this.#made.get(column) as T;
  }

  /** A feature with at least two axes: a vector has one value for each example. */
  get(key: string, column: string): Output | SparseTensor {
    const known = this.#features.get(key);
    if (known) return known;
    const value = Object.hasOwn(this.#values, key) ? this.#values[key] : undefined;
    if (value === undefined || value === null) throw this.#missing(key, column);
    const feature = value instanceof SparseTensor ? atLeastMatrix(value) : denseMatrix(key, asOutput(value));
    this.#features.set(key, feature);
    return feature;
  }

  /** The same as a sparse tensor: the empty string and -1 stand for nothing in a dense one. */
  sparse(key: string, column: string): SparseTensor {
    const feature = this.get(key, column);
    if (feature instanceof SparseTensor) return feature;
    return this.once(feature, () => toSparse(feature));
  }

  #missing(key: string, column: string): Error {
    const names = Object.keys(this.#values);
    const closest = closestName(key, names);
    return invalid(`There is no feature '${key}', which the column '${column}' needs`, {
      hint: `${closest === undefined ? '' : `Did you mean '${closest}'? `}The features are ${names.join(', ') || 'empty'}.`,
    });
  }
}

/** Drops the elements that stand for nothing: '', -1, or 0 in weights. */
export function toSparse(x: Output, nothing?: number): SparseTensor {
  const ignored = nothing ?? (x.dtype === 'string' ? '' : isInteger(x.dtype) ? -1 : 0);
  return currentGraph().nameScope('to_sparse_input', () => {
    const indices = raw.whereOp(raw.notEqual(x, Tensor.of(ignored, { dtype: x.dtype })));
    return new SparseTensor({
      indices,
      values: raw.gatherNd(x, indices),
      denseShape: raw.shape(x, { outType: 'int64' }),
    });
  });
}

function denseMatrix(key: string, x: Output): Output {
  if (x.rank === 0)
    throw invalid(`Feature '${key}' is a scalar; a feature has one value, or a list, for each example`);
  if (x.rank === 1) return raw.expandDims(x, Tensor.of(Int32Array.of(-1)));
  if (x.rank !== null) return x;
  const shape = raw.shape(x, { outType: 'int64' });
  return raw.reshape(x, withAxis(shape));
}

function atLeastMatrix(x: SparseTensor): SparseTensor {
  if (x.rank !== null && x.rank > 1) return x;
  return x.reshape(withAxis(x.denseShape));
}

/** A shape with one element gets a second one. */
function withAxis(shape: Output): Output {
  const isVector = raw.equal(raw.size(shape), Tensor.of(1, { dtype: 'int32' }));
  const count = raw.reshape(raw.cast(isVector, { dstT: 'int32' }), Tensor.of(Int32Array.of(1)));
  return concat([shape, raw.fill(count, Tensor.of(1n, { dtype: 'int64' }))], 0);
}
