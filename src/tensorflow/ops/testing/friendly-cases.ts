/** Each function of the high-level op API with the result of plain arithmetic on the same numbers. */
import type { Fetches } from '../../session/fetches.js';
import { Tensor } from '../../tensor/tensor.js';
import * as tf from '../index.js';

const X = [0.5, -1.5, 2];
const P = [0.5, 1.5, 2];
const M = [
  [1, 2, 3],
  [4, 5, 6],
];
const each = (f: (x: number) => number, values = X) => values.map(f);
const softmax = (row: readonly number[]) => {
  const e = row.map(Math.exp);
  const total = e.reduce((a, b) => a + b);
  return e.map((value) => value / total);
};
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const i32 = (value: number | number[] | number[][]) => tf.constant(value, { dtype: 'int32' });
const crossEntropy = (z: number, x: number) => Math.max(x, 0) - x * z + Math.log1p(Math.exp(-Math.abs(x)));

/** What to build, and the expected result. */
export const CASES: Record<string, () => [build: Fetches, expected: unknown]> = {
  abs: () => [
    [tf.abs(X), tf.abs(tf.constant({ re: 3, im: 4 }))],
    [each(Math.abs), 5],
  ],
  acos: () => [tf.acos([0.5]), [Math.acos(0.5)]],
  add: () => [tf.add(X, 1), each((x) => x + 1)],
  addN: () => [
    [tf.addN([X, X, X]), tf.addN([X])],
    [each((x) => 3 * x), X],
  ],
  all: () => [
    [
      tf.all([true, false]),
      tf.all(
        [
          [true, true],
          [false, true],
        ],
        { axis: 1 },
      ),
    ],
    [false, [true, false]],
  ],
  any: () => [
    tf.any(
      [
        [true, false],
        [false, false],
      ],
      { axis: 1, keepDims: true },
    ),
    [[true], [false]],
  ],
  argMax: () => [
    [tf.argMax(M, 1), tf.argMax(M, 0, 'int32')],
    [
      [2n, 2n],
      [1, 1, 1],
    ],
  ],
  argMin: () => [tf.argMin(M, 1), [0n, 0n]],
  asin: () => [tf.asin([0.5]), [Math.asin(0.5)]],
  asOutput: () => [tf.asOutput([1n]), [1n]],
  atan: () => [tf.atan(X), each(Math.atan)],
  atan2: () => [tf.atan2(X, 2), each((x) => Math.atan2(x, 2))],
  avgPool: () => [
    tf.avgPool([
      [
        [[1], [3]],
        [[5], [7]],
      ],
    ]),
    [[[[4]]]],
  ],
  biasAdd: () => [
    tf.biasAdd(M, [1, 0, -1]),
    [
      [2, 2, 2],
      [5, 5, 5],
    ],
  ],
  booleanMask: () => [
    [
      tf.booleanMask(M, [true, false]),
      tf.booleanMask(M, [
        [true, false, true],
        [false, true, false],
      ]),
    ],
    [[[1, 2, 3]], [1, 3, 5]],
  ],
  broadcastTo: () => [
    tf.broadcastTo([1, 2], [2, 2]),
    [
      [1, 2],
      [1, 2],
    ],
  ],
  cast: () => [
    [tf.cast([1.7, -1.7], 'int32'), tf.cast(tf.constant([1n]), 'float64')],
    [[1, -1], [1]],
  ],
  ceil: () => [tf.ceil(X), each(Math.ceil)],
  clipByValue: () => [tf.clipByValue(X, -1, 1), [0.5, -1, 1]],
  concat: () => [
    [tf.concat([M, [[7, 8, 9]]]), tf.concat([M, M], 1), tf.concat([X])],
    [[...M, [7, 8, 9]], M.map((row) => [...row, ...row]), X],
  ],
  cond: () => [
    tf.cond(
      true,
      () => [1, 2],
      () => [3, 4],
    ),
    [[1, 2]],
  ],
  condOne: () => [
    tf.condOne(
      false,
      () => 1,
      () => 2,
    ),
    2,
  ],
  constant: () => [
    [
      tf.constant(1),
      tf.constant([1], { dtype: 'int64' }),
      tf.constant(7, { shape: [2] }),
      tf.constant(Tensor.of(X), { shape: [3, 1] }),
    ],
    [1, [1n], [7, 7], X.map((x) => [x])],
  ],
  conv2d: () => [
    tf.conv2d(
      [
        [
          [[1], [2]],
          [[3], [4]],
        ],
      ],
      [
        [[[1]], [[1]]],
        [[[1]], [[1]]],
      ],
      { padding: 'valid' },
    ),
    [[[[10]]]],
  ],
  cos: () => [tf.cos(X), each(Math.cos)],
  cosh: () => [tf.cosh(X), each(Math.cosh)],
  cumprod: () => [tf.cumprod([1, 2, 3]), [1, 2, 6]],
  cumsum: () => [tf.cumsum([1, 2, 3], { exclusive: true, reverse: true }), [5, 3, 0]],
  depthwiseConv2d: () => [tf.depthwiseConv2d([[[[1, 2]]]], [[[[3], [4]]]]), [[[[3, 8]]]]],
  div: () => [tf.div(X, 2), each((x) => x / 2)],
  divNoNan: () => [tf.divNoNan([1, 2], [0, 4]), [0, 0.5]],
  elu: () => [tf.elu(X), each((x) => (x > 0 ? x : Math.expm1(x)))],
  equal: () => [tf.equal(X, [0.5, 1, 2]), [true, false, true]],
  erf: () => [tf.erf([0, 100]), [0, 1]],
  exp: () => [tf.exp(X), each(Math.exp)],
  expandDims: () => [tf.expandDims([1, 2], 1), [[1], [2]]],
  expm1: () => [tf.expm1(X), each(Math.expm1)],
  eye: () => [
    [tf.eye(2), tf.eye(1, 2), tf.eye(2, 1, 'int32')],
    [
      [
        [1, 0],
        [0, 1],
      ],
      [[1, 0]],
      [[1], [0]],
    ],
  ],
  fill: () => [tf.fill([2], 'a'), ['a', 'a']],
  finite: () => [tf.finite([1, Number.NaN, Number.POSITIVE_INFINITY]), [true, false, false]],
  flatten: () => [tf.flatten(M), M.flat()],
  floor: () => [tf.floor(X), each(Math.floor)],
  floorDiv: () => [tf.floorDiv(i32([7, -7]), 2), [3, -4]],
  gather: () => [
    [tf.gather(M, [1, 0]), tf.gather(M, 2, { axis: 1 })],
    [
      [M[1], M[0]],
      [3, 6],
    ],
  ],
  gatherND: () => [
    tf.gatherND(M, [
      [0, 1],
      [1, 2],
    ]),
    [2, 6],
  ],
  gelu: () => [tf.gelu([0, 1], { approximate: true }), [0, 0.841192]],
  einsum: () => [tf.einsum('i,i->', tf.constant(X), X, { name: 'dot' }), 6.5],
  toBfloat16: () => [tf.toFloat(tf.toBfloat16(1.5)), 1.5],
  toComplex64: () => [tf.abs(tf.toComplex64(2)), 2],
  toComplex128: () => [tf.abs(tf.toComplex128(2)), 2],
  toDouble: () => [tf.toDouble(X), X],
  toFloat: () => [tf.toFloat(i32([1, 2])), [1, 2]],
  toInt32: () => [tf.toInt32([1.9, -1.9]), [1, -1]],
  toInt64: () => [tf.toInt64([1.9, -1.9]), [1n, -1n]],
  greater: () => [tf.greater(X, 0), [true, false, true]],
  greaterEqual: () => [tf.greaterEqual(X, 2), [false, false, true]],
  group: () => [tf.group([tf.noOp(), tf.constant(1)]), undefined],
  identity: () => [tf.identity(X), X],
  inTopK: () => [
    tf.inTopK(
      [
        [1, 2, 3],
        [3, 2, 1],
      ],
      [1, 2],
      2,
    ),
    [true, false],
  ],
  isInf: () => [tf.isInf([1, Number.POSITIVE_INFINITY]), [false, true]],
  isNan: () => [tf.isNan([1, Number.NaN]), [false, true]],
  l2Loss: () => [tf.l2Loss(X), (0.25 + 2.25 + 4) / 2],
  l2Normalize: () => [tf.l2Normalize([[3, 4]], 1), [[0.6, 0.8]]],
  leakyRelu: () => [tf.leakyRelu(X, 0.1), each((x) => (x > 0 ? x : 0.1 * x))],
  less: () => [tf.less(X, 0), [false, true, false]],
  lessEqual: () => [tf.lessEqual(X, 0.5), [true, true, false]],
  lgamma: () => [tf.lgamma([1, 4]), [0, Math.log(6)]],
  linspace: () => [tf.linspace(0, 1, 3), [0, 0.5, 1]],
  log: () => [tf.log(P), each(Math.log, P)],
  log1p: () => [tf.log1p(P), each(Math.log1p, P)],
  logSigmoid: () => [tf.logSigmoid(X), each((x) => Math.log(sigmoid(x)))],
  logSoftmax: () => [tf.logSoftmax(M), M.map((row) => softmax(row).map(Math.log))],
  logSumExp: () => [
    [tf.logSumExp([1000, 1000]), tf.logSumExp(M, { axis: 1 }), tf.logSumExp(M, { axis: 1, keepDims: true })],
    [
      1000 + Math.log(2),
      M.map((row) => Math.log(row.map(Math.exp).reduce((a, b) => a + b))),
      M.map((row) => [Math.log(row.map(Math.exp).reduce((a, b) => a + b))]),
    ],
  ],
  logicalAnd: () => [tf.logicalAnd([true, false], true), [true, false]],
  logicalNot: () => [tf.logicalNot([true, false]), [false, true]],
  logicalOr: () => [tf.logicalOr([true, false], false), [true, false]],
  logicalXor: () => [tf.logicalXor([true, false], [true, true]), [false, true]],
  matMul: () => [
    [
      tf.matMul(M, [[1], [0], [1]]),
      tf.matMul(M, M, { transposeB: true }),
      tf.matMul([M], [M], { transposeA: true }),
    ],
    [
      [[4], [10]],
      [
        [14, 32],
        [32, 77],
      ],
      [
        [
          [17, 22, 27],
          [22, 29, 36],
          [27, 36, 45],
        ],
      ],
    ],
  ],
  max: () => [
    [tf.max(M), tf.max(M, { axis: -1 })],
    [6, [3, 6]],
  ],
  maxPool: () => [
    tf.maxPool(
      [
        [
          [[1], [3]],
          [[5], [7]],
        ],
      ],
      { size: 2, strides: 1, padding: 'valid' },
    ),
    [[[[7]]]],
  ],
  maximum: () => [tf.maximum(X, 0), each((x) => Math.max(x, 0))],
  mean: () => [
    [tf.mean(M), tf.mean(M, { axis: 0 })],
    [3.5, [2.5, 3.5, 4.5]],
  ],
  min: () => [tf.min(M, { axis: [0, 1] }), 1],
  minimum: () => [tf.minimum(X, 0), each((x) => Math.min(x, 0))],
  mod: () => [tf.mod(i32([7, -7]), 3), [1, 2]],
  moments: () => [{ ...tf.moments(M, { axis: 1 }) }, { mean: [2, 5], variance: [2 / 3, 2 / 3] }],
  mul: () => [tf.mul(X, X), each((x) => x * x)],
  neg: () => [tf.neg(X), each((x) => -x)],
  noOp: () => [tf.noOp(), undefined],
  norm: () => [
    [tf.norm([3, 4]), tf.norm(M, { axis: 1 })],
    [5, [Math.sqrt(14), Math.sqrt(77)]],
  ],
  notEqual: () => [tf.notEqual(['a', 'b'], 'a'), [false, true]],
  oneHot: () => [
    tf.oneHot([0, 2], 3, { onValue: 5, offValue: -1 }),
    [
      [5, -1, -1],
      [-1, -1, 5],
    ],
  ],
  ones: () => [tf.ones([2], 'int32'), [1, 1]],
  onesLike: () => [
    [tf.onesLike(M), tf.onesLike([true])],
    [
      [
        [1, 1, 1],
        [1, 1, 1],
      ],
      [true],
    ],
  ],
  pad: () => [
    [
      tf.pad([1, 2], [[1, 1]]),
      tf.pad([1, 2], [[0, 1]], { value: 9 }),
      tf.pad([1, 2, 3], [[2, 0]], { mode: 'reflect' }),
    ],
    [
      [0, 1, 2, 0],
      [1, 2, 9],
      [3, 2, 1, 2, 3],
    ],
  ],
  placeholderWithDefault: () => [tf.placeholderWithDefault(X, [3]), X],
  pow: () => [tf.pow(P, 2), each((x) => x ** 2, P)],
  prod: () => [tf.prod(M, { axis: 0 }), [4, 10, 18]],
  range: () => [
    [tf.range(1, 4), tf.range(0, 1, 0.5, 'float32'), tf.range(0, tf.constant(2n))],
    [
      [1, 2, 3],
      [0, 0.5],
      [0n, 1n],
    ],
  ],
  rank: () => [tf.rank(M), 2],
  reciprocal: () => [tf.reciprocal(P), each((x) => 1 / x, P)],
  relu: () => [tf.relu(X), each((x) => Math.max(0, x))],
  relu6: () => [tf.relu6([-1, 3, 9]), [0, 3, 6]],
  reshape: () => [
    tf.reshape(M, [3, -1]),
    [
      [1, 2],
      [3, 4],
      [5, 6],
    ],
  ],
  reverse: () => [tf.reverse(M, [0]), [...M].reverse()],
  round: () => [tf.round([0.5, 1.5, -2.4]), [0, 2, -2]],
  rsqrt: () => [tf.rsqrt(P), each((x) => 1 / Math.sqrt(x), P)],
  scalar: () => [tf.scalar(3), 3],
  scatterND: () => [tf.scatterND([[1], [3]], [5, 6], [4]), [0, 5, 0, 6]],
  selu: () => [tf.selu([1]), [1.0507009873554805]],
  shape: () => [
    [tf.shape(M), tf.shape(M, 'int64')],
    [
      [2, 3],
      [2n, 3n],
    ],
  ],
  sigmoid: () => [tf.sigmoid(X), each(sigmoid)],
  sigmoidCrossEntropyWithLogits: () => [
    tf.sigmoidCrossEntropyWithLogits([0, 1, 1], [0, 2, -100]),
    [crossEntropy(0, 0), crossEntropy(1, 2), crossEntropy(1, -100)],
  ],
  sign: () => [tf.sign(X), each(Math.sign)],
  sin: () => [tf.sin(X), each(Math.sin)],
  sinh: () => [tf.sinh(X), each(Math.sinh)],
  size: () => [tf.size(M), 6],
  slice: () => [
    tf.slice(M, [0, 1], [-1, 2]),
    [
      [2, 3],
      [5, 6],
    ],
  ],
  softmax: () => [
    [tf.softmax(M), tf.softmax([[1], [2]], 0)],
    [M.map(softmax), softmax([1, 2]).map((x) => [x])],
  ],
  softmaxCrossEntropyWithLogits: () => [
    [
      tf.softmaxCrossEntropyWithLogits([[0, 0, 1]], [[1, 2, 3]]),
      tf.softmaxCrossEntropyWithLogits([[[0, 0, 1]]], [[[1, 2, 3]]]),
    ],
    [[-Math.log(softmax([1, 2, 3])[2]!)], [[-Math.log(softmax([1, 2, 3])[2]!)]]],
  ],
  softplus: () => [tf.softplus(X), each((x) => Math.log1p(Math.exp(x)))],
  softsign: () => [tf.softsign(X), each((x) => x / (1 + Math.abs(x)))],
  sparseSoftmaxCrossEntropyWithLogits: () => [
    [
      tf.sparseSoftmaxCrossEntropyWithLogits([2], [[1, 2, 3]]),
      tf.sparseSoftmaxCrossEntropyWithLogits([[2]], [[[1, 2, 3]]]),
    ],
    [[-Math.log(softmax([1, 2, 3])[2]!)], [[-Math.log(softmax([1, 2, 3])[2]!)]]],
  ],
  split: () => [
    [tf.split(M, 3, 1), tf.split([1, 2, 3], [1, 2])],
    [
      [
        [[1], [4]],
        [[2], [5]],
        [[3], [6]],
      ],
      [[1], [2, 3]],
    ],
  ],
  sqrt: () => [tf.sqrt(P), each(Math.sqrt, P)],
  square: () => [tf.square(X), each((x) => x * x)],
  squaredDifference: () => [tf.squaredDifference(X, 1), each((x) => (x - 1) ** 2)],
  squeeze: () => [
    [tf.squeeze([[[1]], [[2]]]), tf.squeeze([[[1]], [[2]]], [1])],
    [
      [1, 2],
      [[1], [2]],
    ],
  ],
  stack: () => [
    tf.stack(
      [
        [1, 2],
        [3, 4],
      ].map((row) => tf.constant(row)),
      1,
    ),
    [
      [1, 3],
      [2, 4],
    ],
  ],
  stopGradient: () => [tf.stopGradient(X), X],
  stridedSlice: () => [tf.stridedSlice([1, 2, 3, 4], [0], [4], { strides: [2] }), [1, 3]],
  sub: () => [tf.sub(1, X), each((x) => 1 - x)],
  sum: () => [
    [tf.sum(M), tf.sum(M, { axis: 1, keepDims: true }), tf.sum(3)],
    [21, [[6], [15]], 3],
  ],
  swish: () => [tf.swish(X), each((x) => x * sigmoid(x))],
  tan: () => [tf.tan(X), each(Math.tan)],
  tanh: () => [tf.tanh(X), each(Math.tanh)],
  tile: () => [tf.tile([1, 2], [2]), [1, 2, 1, 2]],
  topk: () => [{ ...tf.topk([1, 3, 2], 2) }, { values: [3, 2], indices: [1, 2] }],
  transpose: () => [
    [tf.transpose(M), tf.transpose([M], [2, 0, 1])],
    [
      [
        [1, 4],
        [2, 5],
        [3, 6],
      ],
      [[[1, 4]], [[2, 5]], [[3, 6]]],
    ],
  ],
  unique: () => [{ ...tf.unique([3, 1, 3]) }, { y: [3, 1], idx: [0, 1, 0] }],
  unstack: () => [
    tf.unstack(M, 1),
    [
      [1, 4],
      [2, 5],
      [3, 6],
    ],
  ],
  where: () => [tf.where([true, false, true], X, 0), [0.5, 0, 2]],
  whileLoop: () => [
    tf.whileLoop(
      (i) => i.less(3),
      (i) => i.add(1),
      [0],
    ),
    [3],
  ],
  withDependencies: () => [tf.withDependencies([tf.noOp()], tf.constant(1)), 1],
  zeros: () => [
    [tf.zeros([1, 2]), tf.zeros([1], 'bool'), tf.zeros([1], 'string'), tf.zeros([])],
    [[[0, 0]], [false], [''], 0],
  ],
  zerosLike: () => [
    tf.zerosLike(M),
    [
      [0, 0, 0],
      [0, 0, 0],
    ],
  ],
};
