/** Neural networks: activations and their gradients, softmax, convolution, pooling, normalization, images. */
import { i32, i64, noise, type OpCase, op, t } from '../case.js';

const image = noise([2, 5, 6, 3]);
const gradients = (names: string): OpCase[] =>
  names.split(' ').map((name) => op(name, [noise([6], -1, 1), noise([6], -1, 1, 'float32', 2)]));
const window = { ksize: [1, 2, 2, 1], strides: [1, 2, 2, 1] };
const resize = (names: string): OpCase[] =>
  names
    .split(' ')
    .flatMap((name) => [
      op(name, [image, i32([3, 4])]),
      op(name, [image, i32([8, 7])], { half_pixel_centers: true }),
    ]);

export const nn: readonly OpCase[] = [
  ...gradients(
    'ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad SigmoidGrad TanhGrad SqrtGrad RsqrtGrad',
  ),
  op('LeakyReluGrad', [noise([4]), noise([4], -1, 1, 'float32', 2)], { alpha: 0.1 }),
  op('Softmax', [noise([3, 4])]),
  op('LogSoftmax', [noise([3, 4], -3, 3, 'float64')]),
  op('SoftmaxCrossEntropyWithLogits', [
    noise([3, 4]),
    t([
      [1, 0, 0, 0],
      [0, 0.5, 0.5, 0],
      [0, 0, 0, 1],
    ]),
  ]),
  op('SparseSoftmaxCrossEntropyWithLogits', [noise([3, 4]), i32([0, 3, 1])]),
  op('SparseSoftmaxCrossEntropyWithLogits', [noise([3, 4]), i64([0, 3, 1])]),
  op('BiasAdd', [image, t([1, 2, 3])]),
  op('BiasAddV1', [noise([2, 3]), t([1, 2, 3])]),
  op('BiasAddGrad', [image]),
  op('Conv2D', [image, noise([2, 2, 3, 4])], { strides: [1, 1, 1, 1], padding: 'SAME' }),
  op('Conv2D', [image, noise([3, 3, 3, 2])], { strides: [1, 2, 2, 1], padding: 'VALID' }),
  op('Conv2D', [image, noise([2, 2, 3, 1])], {
    strides: [1, 1, 1, 1],
    padding: 'VALID',
    dilations: [1, 2, 2, 1],
  }),
  op('Conv2D', [image, noise([2, 2, 3, 1])], {
    strides: [1, 1, 1, 1],
    padding: 'EXPLICIT',
    explicit_paddings: [0, 0, 1, 0, 0, 2, 0, 0],
  }),
  op('Conv2DBackpropInput', [i32([2, 5, 6, 3]), noise([2, 2, 3, 4]), noise([2, 5, 6, 4])], {
    strides: [1, 1, 1, 1],
    padding: 'SAME',
  }),
  op('Conv2DBackpropFilter', [image, i32([2, 2, 3, 4]), noise([2, 5, 6, 4])], {
    strides: [1, 1, 1, 1],
    padding: 'SAME',
  }),
  op('DepthwiseConv2dNative', [image, noise([2, 2, 3, 2])], { strides: [1, 1, 1, 1], padding: 'SAME' }),
  op('Conv3D', [noise([1, 3, 4, 4, 2]), noise([2, 2, 2, 2, 1])], {
    strides: [1, 1, 1, 1, 1],
    padding: 'SAME',
  }),
  op('Dilation2D', [image, noise([2, 2, 3])], {
    strides: [1, 1, 1, 1],
    rates: [1, 1, 1, 1],
    padding: 'SAME',
  }),
  op('MaxPool', [image], { ...window, padding: 'SAME' }),
  op('MaxPoolV2', [image, i32([1, 2, 2, 1]), i32([1, 1, 1, 1])], { padding: 'VALID' }),
  op('MaxPoolWithArgmax', [image], { ...window, padding: 'VALID' }),
  op('AvgPool', [image], { ...window, padding: 'SAME' }),
  op('AvgPoolGrad', [i32([2, 4, 4, 3]), noise([2, 2, 2, 3])], { ...window, padding: 'VALID' }),
  op('MaxPool3D', [noise([1, 4, 4, 4, 1])], {
    ksize: [1, 2, 2, 2, 1],
    strides: [1, 2, 2, 2, 1],
    padding: 'VALID',
  }),
  op('AvgPool3D', [noise([1, 4, 4, 4, 1])], {
    ksize: [1, 2, 2, 2, 1],
    strides: [1, 2, 2, 2, 1],
    padding: 'VALID',
  }),
  op('LRN', [image], { depth_radius: 2, bias: 1, alpha: 0.5, beta: 0.5 }),
  op('FusedBatchNorm', [image, t([1, 2, 3]), t([0, 1, 2]), t([]), t([])], { epsilon: 0.1 }),
  ...resize('ResizeBilinear ResizeNearestNeighbor ResizeBicubic'),
  op('ResizeArea', [image, i32([3, 4])]),
  op('CropAndResize', [
    image,
    t([
      [0, 0, 1, 1],
      [0.2, 0.2, 0.8, 0.8],
    ]),
    i32([0, 1]),
    i32([3, 3]),
  ]),
  op('AdjustContrastv2', [noise([1, 3, 3, 3], 0, 1), t(1.5)]),
  op('AdjustHue', [noise([1, 3, 3, 3], 0, 1), t(0.2)]),
  op('AdjustSaturation', [noise([1, 3, 3, 3], 0, 1), t(1.5)]),
  op('RGBToHSV', [noise([4, 3], 0, 1)]),
  op('HSVToRGB', [noise([4, 3], 0, 1)]),
  op('NonMaxSuppressionV3', [
    t([
      [0, 0, 1, 1],
      [0, 0, 1, 0.9],
      [2, 2, 3, 3],
    ]),
    t([0.9, 0.8, 0.7]),
    i32(3),
    t(0.5),
    t(0),
  ]),
  op('DrawBoundingBoxesV2', [noise([1, 4, 4, 3], 0, 1), t([[[0, 0, 0.5, 0.5]]]), t([[1, 0, 0]])]),
  op('ExtractGlimpse', [
    image,
    i32([2, 2]),
    t([
      [0, 0],
      [0.5, 0.5],
    ]),
  ]),
  op('ImageProjectiveTransformV3', [noise([1, 4, 4, 1]), t([[1, 0, 1, 0, 1, 0, 0, 0]]), i32([4, 4]), t(0)], {
    interpolation: 'NEAREST',
  }),
  op('StatelessRandomUniform', [i32([2, 3]), i64([1, 2])]),
  op('StatelessRandomNormal', [i32([4]), i64([1, 2])]),
  op('StatelessTruncatedNormal', [i32([4]), i64([3, 4])], { dtype: 'float64' }),
  op('StatelessRandomUniformInt', [i32([5]), i64([1, 2]), i32(-10), i32(10)]),
  op('StatelessMultinomial', [noise([2, 3]), i32(4), i64([1, 2])]),
  op('RandomUniform', [i32([3])], { dtype: 'float32', seed: 7, seed2: 9 }),
  op('RandomStandardNormal', [i32([3])], { dtype: 'float64', seed: 7, seed2: 9 }),
  op('TruncatedNormal', [i32([3])], { dtype: 'float32', seed: 7, seed2: 9 }),
  op('RandomUniformInt', [i32([3]), i64(0), i64(100)], { seed: 7, seed2: 9 }),
  op('RandomShuffle', [t([1, 2, 3, 4, 5])], { seed: 7, seed2: 9 }),
  op('Multinomial', [noise([2, 3]), i32(3)], { seed: 7, seed2: 9 }),
  op('CTCGreedyDecoder', [noise([3, 1, 4]), i32([3])]),
];
