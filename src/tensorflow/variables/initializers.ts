/** Initializers of variables, by TensorFlow's rules. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { reshape, slice, transpose } from '../ops/arrays.js';
import { asShape, constant, fill, ones, zeros } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { add, mul } from '../ops/math.js';
import { randomNormal, randomUniform, truncatedNormal } from '../ops/random.js';
import { DTYPES, type DType, isFloating } from '../tensor/dtype.js';
import { type Shape, sizeOf } from '../tensor/shape.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';

/** Creates the initial value of a variable. */
export type Initializer = (shape: Shape, dtype: DType) => Output;

export const zerosInitializer = (): Initializer => (shape, dtype) => filled(shape, 0, dtype);
export const onesInitializer = (): Initializer => (shape, dtype) => filled(shape, 1, dtype);

/** Fills above this many bytes are kept out of TensorFlow's constant folding. */
const FOLDING_LIMIT = 64 * 1024;

/**
 * A tensor filled with one value. TensorFlow's constant folding evaluates a Fill of any size and keeps the result: a
 * second copy of a large table for the life of the session. Empty is stateful and so not folded; the value is then
 * added in place.
 */
export function filled<D extends DType>(shape: Shape, value: number, dtype: D): Output<D> {
  const isLarge = isFloating(dtype) && sizeOf(shape) * DTYPES[dtype].size > FOLDING_LIMIT;
  if (!isLarge) {
    return value === 0
      ? zeros(shape, dtype)
      : value === 1
        ? ones(shape, dtype)
        : fill(shape, constant(value, { dtype }));
  }
  const empty = raw.empty(asShape(shape), { dtype, init: true });
  return (value === 0 ? empty : add(empty, value)) as Output<D>;
}

/** A constant; a scalar fills the shape. */
export const constantInitializer =
  (value: TensorLike): Initializer =>
  (shape, dtype) => {
    if (value instanceof Tensor) {
      if (value.rank === 0 && isFloating(value.dtype)) return filled(shape, value.number(), value.dtype);
      return value.rank === 0 ? fill(shape, constant(value)) : reshape(constant(value), shape);
    }
    if (typeof value === 'number') return filled(shape, value, dtype);
    const isScalar = !Array.isArray(value) && !ArrayBuffer.isView(value);
    return isScalar ? fill(shape, constant(value, { dtype })) : reshape(constant(value, { dtype }), shape);
  };

export interface Seeded {
  /** The seed of the values; default: derived from the graph's seed if that is set, else random. */
  readonly seed?: number;
}

export const randomUniformInitializer =
  (low = -0.05, high = 0.05, { seed }: OrNull<Seeded> = {}): Initializer =>
  (shape, dtype) =>
    randomUniform(shape, low, high, { dtype, seed });

export const randomNormalInitializer =
  (mean = 0, stddev = 1, { seed }: OrNull<Seeded> = {}): Initializer =>
  (shape, dtype) =>
    randomNormal(shape, mean, stddev, { dtype, seed });

export const truncatedNormalInitializer =
  (mean = 0, stddev = 1, { seed }: OrNull<Seeded> = {}): Initializer =>
  (shape, dtype) =>
    truncatedNormal(shape, mean, stddev, { dtype, seed });

export interface VarianceScalingOptions extends Seeded {
  /** The scale of the variance; default: 1. */
  readonly scale?: number;
  /** What the variance is divided by; default: 'fanIn'. */
  readonly mode?: 'fanIn' | 'fanOut' | 'fanAvg';
  /** The distribution; default: 'truncatedNormal'. */
  readonly distribution?: 'uniform' | 'normal' | 'truncatedNormal';
}

/** The standard deviation of a normal distribution truncated at two standard deviations. */
const TRUNCATED_STDDEV = 0.87962566103423978;

/** Scales by the number of inputs or outputs of the weights, so that signals keep their variance. */
export const varianceScaling =
  (options: OrNull<VarianceScalingOptions> = {}): Initializer =>
  (shape, dtype) => {
    const {
      scale = 1,
      mode = 'fanIn',
      distribution = 'truncatedNormal',
      seed,
    } = withoutNull<VarianceScalingOptions>(options);
    const { fanIn, fanOut } = fans(shape);
    const fan = mode === 'fanIn' ? fanIn : mode === 'fanOut' ? fanOut : (fanIn + fanOut) / 2;
    const variance = scale / Math.max(1, fan);
    if (distribution === 'uniform') {
      const limit = Math.sqrt(3 * variance);
      return randomUniform(shape, -limit, limit, { dtype, seed });
    }
    if (distribution === 'normal') return randomNormal(shape, 0, Math.sqrt(variance), { dtype, seed });
    return truncatedNormal(shape, 0, Math.sqrt(variance) / TRUNCATED_STDDEV, { dtype, seed });
  };

export const glorotUniform = ({ seed }: OrNull<Seeded> = {}): Initializer =>
  varianceScaling({ mode: 'fanAvg', distribution: 'uniform', ...(seed != null && { seed }) });
export const glorotNormal = ({ seed }: OrNull<Seeded> = {}): Initializer =>
  varianceScaling({
    mode: 'fanAvg',
    distribution: 'truncatedNormal',
    ...(seed != null && { seed }),
  });
export const heUniform = ({ seed }: OrNull<Seeded> = {}): Initializer =>
  varianceScaling({ scale: 2, distribution: 'uniform', ...(seed != null && { seed }) });
export const heNormal = ({ seed }: OrNull<Seeded> = {}): Initializer =>
  varianceScaling({ scale: 2, distribution: 'truncatedNormal', ...(seed != null && { seed }) });

export interface OrthogonalOptions extends Seeded {
  /** The factor of the values; default: 1. */
  readonly gain?: number;
}

/** Rows or columns that are orthonormal, times `gain`; default: 1. */
export const orthogonal =
  (options: OrNull<OrthogonalOptions> = {}): Initializer =>
  (shape, dtype) => {
    const { gain = 1, seed } = withoutNull<OrthogonalOptions>(options);
    if (shape.length < 2) throw invalid('An orthogonal initializer needs a shape of at least rank 2');
    const columns = shape.at(-1) as number;
    const rows = sizeOf(shape.slice(0, -1));
    const tall = [Math.max(rows, columns), Math.min(rows, columns)];
    const { q, r } = raw.qr(randomNormal(tall, 0, 1, { dtype, seed }), { fullMatrices: false });
    // The sign of the diagonal makes the decomposition unique, so the result is uniformly distributed.
    const unique = mul(q, raw.sign(raw.matrixDiagPart(r)));
    const matrix = rows < columns ? transpose(unique, [1, 0]) : unique;
    return mul(reshape(slice(matrix, [0, 0], [rows, columns]), shape), gain);
  };

function fans(shape: Shape): { fanIn: number; fanOut: number } {
  if (shape.length === 0) return { fanIn: 1, fanOut: 1 };
  if (shape.length === 1) return { fanIn: shape[0] as number, fanOut: shape[0] as number };
  const field = sizeOf(shape.slice(0, -2));
  return { fanIn: (shape.at(-2) as number) * field, fanOut: (shape.at(-1) as number) * field };
}

/** The default initializer: Glorot uniform for floats, else zeros. */
export const defaultInitializer: Initializer = (shape, dtype) =>
  isFloating(dtype) ? glorotUniform()(shape, dtype) : zeros(shape, dtype);
