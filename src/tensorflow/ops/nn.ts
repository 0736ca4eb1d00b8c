/** Activations, softmax, cross entropies, convolution and pooling. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import { reshape, transpose } from './arrays.js';
import { asOutput, integers, type Operand } from './build.js';
import * as raw from './generated/index.js';
import { keywords, withOpOptions } from './keywords.js';
import {
  add,
  div,
  erf,
  exp,
  greaterEqual,
  log1p,
  maximum,
  mul,
  neg,
  reductionAxes,
  sub,
  tanh,
  where,
} from './math.js';
import { namedOperands } from './named-operands.js';

export const relu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.relu(x, options);
export const relu6 = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.relu6(x, options);
export const leakyRelu = keywords<{ alpha: number }>()(
  1,
  ['alpha'],
  <D extends DType>(x: Operand<D>, alpha = 0.2, options?: OpOptions): Output<D> =>
    raw.leakyRelu(x, { alpha, ...options }),
);
export const elu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.elu(x, options);
export const selu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.selu(x, options);
export const sigmoid = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.sigmoid(x, options);
export const softplus = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.softplus(x, options);
export const softsign = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.softsign(x, options);
export const swish = <D extends DType>(x: Operand<D>, options: OpOptions = {}): Output<D> =>
  withOpOptions(x, options, () => {
    const output = asOutput(x);
    return mul(output, raw.sigmoid(output)) as Output<D>;
  });
export const logSigmoid = <D extends DType>(x: Operand<D>, options: OpOptions = {}): Output<D> =>
  withOpOptions(x, options, () => neg(raw.softplus(neg(x))) as Output<D>);

/** x · Φ(x), with the distribution function Φ of the normal distribution, or its approximation by tanh. */
export const gelu = keywords<{ approximate: boolean }>()(
  1,
  ['approximate'],
  <D extends DType>(x: Operand<D>, approximate = false): Output<D> => {
    const output = asOutput(x);
    const inner = approximate
      ? tanh(mul(add(output, mul(mul(mul(output, output), output), 0.044715)), Math.sqrt(2 / Math.PI)))
      : erf(div(output, Math.SQRT2));
    return mul(mul(output, 0.5), add(inner, 1)) as Output<D>;
  },
  { scoped: true },
);

/** Softmax along an axis. */
export const softmax = keywords<{ axis: number }>()(
  1,
  ['axis'],
  <D extends DType>(x: Operand<D>, axis = -1, options?: OpOptions): Output<D> =>
    alongLast(asOutput(x), axis, raw.softmax, options) as Output<D>,
);

export const logSoftmax = keywords<{ axis: number }>()(
  1,
  ['axis'],
  <D extends DType>(x: Operand<D>, axis = -1, options?: OpOptions): Output<D> =>
    alongLast(asOutput(x), axis, raw.logSoftmax, options) as Output<D>,
);

/** TensorFlow's softmax uses the last axis: transposes another axis to the end and back. */
function alongLast(
  x: Output,
  axis: number,
  f: (x: Output, options?: OpOptions) => Output,
  options?: OpOptions,
): Output {
  if (axis === -1 || (x.rank !== null && axis === x.rank - 1)) return f(x, options);
  if (x.rank === null) throw invalid(`softmax over axis ${axis} needs an input of known rank; got ${x}`);
  const order = Array.from({ length: x.rank }, (_, i) => i);
  const at = axis < 0 ? axis + x.rank : axis;
  [order[at], order[x.rank - 1]] = [x.rank - 1, at];
  return raw.transpose(f(transpose(x, order)), Tensor.of(order, { dtype: 'int32' }), options);
}

/** Cross entropy of probabilities (labels) and logits, one value per row. */
export const softmaxCrossEntropyWithLogits = namedOperands(
  'labels',
  'logits',
  (labels, logits, options: OpOptions): Output => {
    const x = asOutput(logits);
    const y = asOutput(labels, x.dtype);
    if (x.rank === 2) return raw.softmaxCrossEntropyWithLogits(x, y, options).loss;
    const flat = raw.softmaxCrossEntropyWithLogits(asRows(x), asRows(y), options).loss;
    return reshape(flat, raw.stridedSlice(raw.shape(x), int32([0]), int32([-1]), int32([1])));
  },
);

const int32 = (values: number[]): Tensor => Tensor.of(values, { dtype: 'int32' });

/** Merges all axes but the last. */
function asRows(x: Output): Output {
  const classes = x.shape?.at(-1);
  if (typeof classes === 'number') return reshape(x, [-1, classes]);
  const last = raw.stridedSlice(raw.shape(x), int32([-1]), int32([0]), int32([1]), { endMask: 1 });
  return reshape(x, raw.concatV2([int32([-1]), last], Tensor.of(0, { dtype: 'int32' })));
}

/** The same with class indices as labels. */
export const sparseSoftmaxCrossEntropyWithLogits = namedOperands(
  'labels',
  'logits',
  (labels, logits, options: OpOptions): Output => {
    const x = asOutput(logits);
    const y = asOutput(integers(labels));
    if (x.rank === 2) return raw.sparseSoftmaxCrossEntropyWithLogits(x, y, options).loss;
    const flat = raw.sparseSoftmaxCrossEntropyWithLogits(asRows(x), reshape(y, [-1]), options).loss;
    return reshape(flat, raw.shape(y));
  },
);

/** Cross entropy of independent binary labels and logits, stable for large logits. */
export const sigmoidCrossEntropyWithLogits = namedOperands(
  'labels',
  'logits',
  (labels, logits, options: OpOptions): Output =>
    withOpOptions(logits, options, () => sigmoidCrossEntropy(labels, logits)),
);

function sigmoidCrossEntropy(labels: Operand, logits: Operand): Output {
  const x = asOutput(logits);
  const z = asOutput(labels, x.dtype);
  // `where` instead of max and abs: the gradients sum to sigmoid(x) - z at x = 0 too.
  const zero = raw.zerosLike(x);
  const isPositive = greaterEqual(x, zero);
  const positive = where(isPositive, x, zero);
  const minusSize = where(isPositive, neg(x), x);
  return add(sub(positive, mul(x, z)), log1p(exp(minusSize)));
}

export const biasAdd = <D extends DType>(x: Operand<D>, bias: Operand<D>, options?: OpOptions): Output<D> =>
  raw.biasAdd(x, bias, options);

export type Padding = 'same' | 'valid';
export type Pair = number | readonly [number, number];

const window = (size: Pair): number[] => {
  const [height, width] = typeof size === 'number' ? [size, size] : size;
  return [1, height, width, 1];
};
const paddingName = (padding: Padding): 'SAME' | 'VALID' => (padding === 'same' ? 'SAME' : 'VALID');

export interface ConvOptions extends OpOptions {
  /** The step of the window; default: 1. */
  readonly strides?: Pair;
  /** The padding of the image; default: 'same'. */
  readonly padding?: Padding;
  /** The distance between elements of the window; default: 1. */
  readonly dilations?: Pair;
}

type Convolution = <D extends DType>(
  x: Operand<D>,
  filter: Operand<D>,
  options?: OrNull<ConvOptions>,
) => Output<D>;

const convolution =
  (op: typeof raw.conv2D): Convolution =>
  (x, filter, options) => {
    const { strides = 1, padding = 'same', dilations = 1, ...rest } = withoutNull<ConvOptions>(options);
    return op(x, filter, {
      strides: window(strides),
      padding: paddingName(padding),
      dilations: window(dilations),
      ...rest,
    }) as never;
  };

/** Images [batch, height, width, in] with filters [height, width, in, out]. */
export const conv2d = convolution(raw.conv2D);
export const depthwiseConv2d = convolution(raw.depthwiseConv2dNative as typeof raw.conv2D);

export interface PoolOptions extends OpOptions {
  /** The size of the window; default: 2. */
  readonly size?: Pair;
  /** The step of the window; default: its size. */
  readonly strides?: Pair;
  /** The padding of the image; default: 'same'. */
  readonly padding?: Padding;
}

type Pooling = <D extends DType>(x: Operand<D>, options?: OrNull<PoolOptions>) => Output<D>;

const pooling =
  (op: typeof raw.avgPool): Pooling =>
  (x, options) => {
    const { size = 2, strides = size, padding = 'same', ...rest } = withoutNull<PoolOptions>(options);
    return op(x, {
      ksize: window(size),
      strides: window(strides),
      padding: paddingName(padding),
      ...rest,
    }) as never;
  };

export const maxPool = pooling(raw.maxPool as typeof raw.avgPool);
export const avgPool = pooling(raw.avgPool);

/** Whether the target class is among the k largest predictions. */
export const inTopK = keywords<{ k: number }>()(
  2,
  ['k'],
  (predictions: Operand, targets: Operand, k = 1, options?: OpOptions): Output<'bool'> => {
    const classes = asOutput(integers(targets));
    return raw.inTopKV2(predictions, classes, asOutput(k, classes.dtype), options);
  },
);

/** Divides by the Euclidean norm along an axis. */
export const l2Normalize = keywords<{ axis: number | readonly number[]; epsilon: number }>()(
  1,
  ['axis', 'epsilon'],
  (x: Operand, axis?: number | readonly number[], epsilon = 1e-12): Output => {
    const output = asOutput(x);
    const axes = typeof axis === 'number' ? [axis] : axis;
    const squares = raw.sum(raw.square(output), reductionAxes(output, axes), { keepDims: true });
    return mul(output, raw.rsqrt(maximum(squares, epsilon)));
  },
  { scoped: true },
);
