/** Gradient cases of activations, softmax, cross entropies, biases and normalization. */
import type { Output } from '../../../graph/operation.js';
import { build } from '../../../ops/build.js';
import * as raw from '../../../ops/generated/index.js';
import { f, f32, type GradientCase, ints } from '../case.js';

const SUMS = 'the rule holds for labels that sum to 1';
const FLAT = 'it is flat: TensorFlow gives zeros';

/** The square gives a piecewise linear function a nonzero second derivative. */
const twice = (
  op: string,
  range: readonly [number, number],
  attrs: Readonly<Record<string, number>> = {},
): GradientCase => ({
  op,
  name: 'of a square',
  order: 2,
  inputs: [f([2, 3], range)],
  build: ([x]) => [raw.square(build(op, [x as Output], attrs).output())],
});

/** First and second order, with the usual shapes. */
const activation = (op: string, attrs?: Readonly<Record<string, number>>): GradientCase[] => [
  { op, inputs: [f([2, 3])], ...(attrs ? { attrs } : {}) },
  { op, inputs: [f([])], ...(attrs ? { attrs } : {}) },
  { op, inputs: [f32([0, 2])], ...(attrs ? { attrs } : {}) },
  twice(op, [-2, 2], attrs),
];

/** A gradient op itself; its inputs are the gradient and the point. */
const gradientOp = (op: string, second: readonly [number, number] = [-2, 2]): GradientCase => ({
  op,
  inputs: [f([2, 3]), f([2, 3], second)],
  nullIsZero: FLAT,
});

const activations: readonly GradientCase[] = [
  ...activation('Relu'),
  ...activation('Elu'),
  ...activation('Selu'),
  ...activation('Softplus'),
  ...activation('Softsign').map((one) =>
    one.order === 2 ? { ...one, noOracle: 'TensorFlow cannot differentiate it twice' } : one,
  ),
  ...activation('Sigmoid'),
  ...activation('LeakyRelu', { alpha: 0.25 }),
  { op: 'Relu6', inputs: [f([2, 5], [-2, 9])] },
  twice('Relu6', [-2, 9]),
  gradientOp('ReluGrad'),
  gradientOp('Relu6Grad', [-2, 9]),
  gradientOp('LeakyReluGrad'),
  gradientOp('EluGrad', [-1, 1]),
  gradientOp('SeluGrad', [-1, 1]),
  gradientOp('SoftplusGrad'),
  { ...gradientOp('SoftsignGrad'), noOracle: 'TensorFlow has no gradient for it' },
  { op: 'SigmoidGrad', inputs: [f([2, 3], [0, 1]), f([2, 3])] },
];

const classes: readonly GradientCase[] = [
  ...['Softmax', 'LogSoftmax'].flatMap((op): GradientCase[] => [
    { op, inputs: [f([2, 3])] },
    { op, inputs: [f([4])] },
    { op, inputs: [f32([2, 1, 3])] },
    { op, inputs: [f([0, 3])] },
    { op, order: 2, inputs: [f([2, 3])] },
  ]),
  {
    op: 'SoftmaxCrossEntropyWithLogits',
    inputs: [f([2, 3]), f([2, 3], [0, 1])],
    outputs: [0],
    noNumeric: SUMS,
  },
  { op: 'SoftmaxCrossEntropyWithLogits', inputs: [f([0, 3]), f([0, 3])], outputs: [0] },
  {
    op: 'SoftmaxCrossEntropyWithLogits',
    name: 'labels for all rows',
    inputs: [f([2, 3]), { ...f([1, 3]), values: [0.2, 0.3, 0.5] }],
    outputs: [0],
    noOracle: 'TensorFlow gives the labels a gradient of the wrong shape',
    noUnknown: 'the broadcast axes must be known',
  },
  {
    op: 'SoftmaxCrossEntropyWithLogits',
    name: 'of probabilities',
    order: 2,
    inputs: [f([2, 3]), { ...f([2, 3]), constant: true, values: [0.2, 0.3, 0.5, 1, 0, 0] }],
    outputs: [0],
  },
  {
    op: 'SparseSoftmaxCrossEntropyWithLogits',
    inputs: [f([2, 3]), ints([2, 0])],
    outputs: [0],
  },
  {
    op: 'SparseSoftmaxCrossEntropyWithLogits',
    inputs: [f32([3, 2]), ints([1, 0, 1], { dtype: 'int64' })],
    outputs: [0],
  },
  {
    op: 'SparseSoftmaxCrossEntropyWithLogits',
    order: 2,
    inputs: [f([2, 3]), ints([2, 0])],
    outputs: [0],
  },
];

const biases: readonly GradientCase[] = [
  { op: 'BiasAdd', inputs: [f([2, 3]), f([3])] },
  { op: 'BiasAdd', inputs: [f([2, 2, 2, 3]), f([3])] },
  { op: 'BiasAdd', inputs: [f([2, 3, 2, 2]), f([3])], attrs: { data_format: 'NCHW' } },
  { op: 'BiasAddV1', inputs: [f([2, 2, 3]), f([3])] },
  { op: 'BiasAddGrad', inputs: [f([2, 4, 3])] },
  { op: 'BiasAddGrad', inputs: [f([2, 3, 4])], attrs: { data_format: 'NCHW' } },
];

const moments = [f32([2], [0.5, 1.5]), f32([2])];
const none = [
  { ...f32([0]), constant: true },
  { ...f32([0]), constant: true },
];
const given = [
  { ...f32([2]), constant: true },
  { ...f32([2], [0.5, 2]), constant: true },
];

const norms: readonly GradientCase[] = [
  {
    op: 'LRN',
    inputs: [f32([2, 2, 2, 5])],
    attrs: { depth_radius: 2, bias: 1.5, alpha: 0.2, beta: 0.75 },
  },
  ...['FusedBatchNorm', 'FusedBatchNormV2', 'FusedBatchNormV3'].flatMap((op): GradientCase[] => [
    { op, inputs: [f32([3, 2, 2, 2]), ...moments, ...none], attrs: { epsilon: 0.01 }, outputs: [0] },
    {
      op,
      inputs: [f32([3, 2, 2, 2]), ...moments, ...given],
      attrs: { epsilon: 0.01, is_training: false },
      outputs: [0],
    },
  ]),
  ...['FusedBatchNormGrad', 'FusedBatchNormGradV2', 'FusedBatchNormGradV3'].flatMap((op): GradientCase[] =>
    [true, false].flatMap((training): GradientCase[] =>
      ['NHWC', ...(training ? ['NCHW'] : [])].map((data_format) => ({
        op,
        name: training ? 'training' : 'given moments',
        order: 2,
        inputs: [f32([3, 2, 2, 2]), ...moments, ...(training ? none : given)],
        build: (inputs) => [
          build(op.replace('Grad', ''), inputs, {
            epsilon: 0.01,
            is_training: training,
            data_format,
          }).output(),
        ],
        oracleTolerance: 1e-4,
      })),
    ),
  ),
  {
    op: 'FusedBatchNormV3',
    name: 'channels first',
    inputs: [f32([3, 2, 2, 2]), ...moments, ...none],
    attrs: { epsilon: 0.01, data_format: 'NCHW' },
    outputs: [0],
  },
  {
    op: 'FusedBatchNormV3',
    name: 'channels first',
    inputs: [f32([3, 2, 2, 2]), ...moments, ...given],
    attrs: { epsilon: 0.01, data_format: 'NCHW', is_training: false },
    outputs: [0],
    needsOneDnn: true,
  },
];

export const nnCases: readonly GradientCase[] = [
  ...activations,
  ...classes,
  ...biases,
  // The kernels support only float32.
  ...norms.map((one) => ({ ...one, step: 0.01 })),
];
