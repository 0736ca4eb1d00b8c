/** Activations, softmax, cross entropies, convolution and pooling. */
import { invalid } from '../errors/errors.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { reshape, transpose } from './arrays.js';
import { asOutput, type Operand } from './build.js';
import * as raw from './generated/index.js';
import { abs as absolute, add, exp, log1p, maximum, mul, neg, sub } from './math.js';

export const relu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.relu(x, options);
export const relu6 = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.relu6(x, options);
export const leakyRelu = <D extends DType>(x: Operand<D>, alpha = 0.2, options?: OpOptions): Output<D> =>
  raw.leakyRelu(x, { alpha, ...options });
export const elu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.elu(x, options);
export const selu = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> => raw.selu(x, options);
export const sigmoid = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.sigmoid(x, options);
export const softplus = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.softplus(x, options);
export const softsign = <D extends DType>(x: Operand<D>, options?: OpOptions): Output<D> =>
  raw.softsign(x, options);
export const swish = <D extends DType>(x: Operand<D>): Output<D> => {
  const output = asOutput(x);
  return mul(output, raw.sigmoid(output)) as Output<D>;
};
export const logSigmoid = <D extends DType>(x: Operand<D>): Output<D> =>
  neg(raw.softplus(neg(x))) as Output<D>;

/** Along the last axis, or along the one named. */
export function softmax<D extends DType>(x: Operand<D>, axis = -1, options?: OpOptions): Output<D> {
  return alongLast(asOutput(x), axis, (y) => raw.softmax(y, options)) as Output<D>;
}

export function logSoftmax<D extends DType>(x: Operand<D>, axis = -1, options?: OpOptions): Output<D> {
  return alongLast(asOutput(x), axis, (y) => raw.logSoftmax(y, options)) as Output<D>;
}

/** TensorFlow's softmax works on the last axis: another one is brought there and back. */
function alongLast(x: Output, axis: number, f: (x: Output) => Output): Output {
  if (axis === -1 || (x.rank !== null && axis === x.rank - 1)) return f(x);
  if (x.rank === null) throw invalid(`A softmax over axis ${axis} needs to know the rank of ${x}`);
  const order = Array.from({ length: x.rank }, (_, i) => i);
  const at = axis < 0 ? axis + x.rank : axis;
  [order[at], order[x.rank - 1]] = [x.rank - 1, at];
  return transpose(f(transpose(x, order)), order);
}

/** Cross entropy of probabilities (labels) and logits, one number a row. */
export function softmaxCrossEntropyWithLogits(labels: Operand, logits: Operand, options?: OpOptions): Output {
  const x = asOutput(logits);
  const y = asOutput(labels, x.dtype);
  if (x.rank === 2) return raw.softmaxCrossEntropyWithLogits(x, y, options).loss;
  const classes = x.shape?.at(-1) ?? -1;
  const flat = raw.softmaxCrossEntropyWithLogits(
    reshape(x, [-1, classes]),
    reshape(y, [-1, classes]),
    options,
  ).loss;
  return reshape(
    flat,
    raw.slice(
      raw.shape(x),
      asOutput([0], 'int32'),
      raw.reshape(raw.sub(raw.rank(x), asOutput(1, 'int32')), asOutput([1], 'int32')),
    ),
  );
}

/** The same with the number of the right class for a label. */
export function sparseSoftmaxCrossEntropyWithLogits(
  labels: Operand,
  logits: Operand,
  options?: OpOptions,
): Output {
  const x = asOutput(logits);
  const y = asOutput(
    labels,
    typeof labels === 'object' && 'dtype' in (labels as object) ? undefined : 'int32',
  );
  if (x.rank === 2) return raw.sparseSoftmaxCrossEntropyWithLogits(x, y, options).loss;
  const classes = x.shape?.at(-1) ?? -1;
  const flat = raw.sparseSoftmaxCrossEntropyWithLogits(
    reshape(x, [-1, classes]),
    reshape(y, [-1]),
    options,
  ).loss;
  return reshape(flat, raw.shape(y));
}

/** Cross entropy of independent yes/no labels and logits, stable for large logits. */
export function sigmoidCrossEntropyWithLogits(labels: Operand, logits: Operand): Output {
  const x = asOutput(logits);
  const z = asOutput(labels, x.dtype);
  const positive = maximum(x, raw.zerosLike(x));
  return add(sub(positive, mul(x, z)), log1p(exp(neg(absolute(x)))));
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
  readonly strides?: Pair;
  readonly padding?: Padding;
  readonly dilations?: Pair;
}

/** Images [batch, height, width, in] with filters [height, width, in, out]. */
export function conv2d<D extends DType>(
  x: Operand<D>,
  filter: Operand<D>,
  options: ConvOptions = {},
): Output<D> {
  const { strides = 1, padding = 'same', dilations = 1, ...rest } = options;
  return raw.conv2D(x, filter, {
    strides: window(strides),
    padding: paddingName(padding),
    dilations: window(dilations),
    ...rest,
  });
}

export function depthwiseConv2d<D extends DType>(
  x: Operand<D>,
  filter: Operand<D>,
  options: ConvOptions = {},
): Output<D> {
  const { strides = 1, padding = 'same', dilations = 1, ...rest } = options;
  return raw.depthwiseConv2dNative(x, filter, {
    strides: window(strides),
    padding: paddingName(padding),
    dilations: window(dilations),
    ...rest,
  });
}

export interface PoolOptions extends OpOptions {
  readonly size?: Pair;
  readonly strides?: Pair;
  readonly padding?: Padding;
}

export function maxPool<D extends DType>(x: Operand<D>, options: PoolOptions = {}): Output<D> {
  const { size = 2, strides = size, padding = 'same', ...rest } = options;
  return raw.maxPool(x, {
    ksize: window(size),
    strides: window(strides),
    padding: paddingName(padding),
    ...rest,
  }) as Output<D>;
}

export function avgPool<D extends DType>(x: Operand<D>, options: PoolOptions = {}): Output<D> {
  const { size = 2, strides = size, padding = 'same', ...rest } = options;
  return raw.avgPool(x, {
    ksize: window(size),
    strides: window(strides),
    padding: paddingName(padding),
    ...rest,
  });
}

/** Whether the right class is among the k likeliest. */
export const inTopK = (predictions: Operand, targets: Operand, k: number): Output<'bool'> =>
  raw.inTopKV2(predictions, targets, asOutput(k, asOutput(targets).dtype));

/** Divides by the Euclidean norm along an axis. */
export function l2Normalize(x: Operand, axis: number | readonly number[], epsilon = 1e-12): Output {
  const output = asOutput(x);
  const axes = typeof axis === 'number' ? [axis] : axis;
  const squares = raw.sum(raw.square(output), asOutput([...axes], 'int32'), { keepDims: true });
  return mul(output, raw.rsqrt(maximum(squares, epsilon)));
}
