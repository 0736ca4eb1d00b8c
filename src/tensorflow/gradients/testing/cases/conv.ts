/** Gradient cases of convolution, pooling and resizing. */
import type { Output } from '../../../graph/operation.js';
import * as raw from '../../../ops/generated/index.js';
import { f, f32, type GradientCase, type InputSpec, ints } from '../case.js';

const FLAT = 'it is flat: TensorFlow gives zeros';
const PADDINGS = ['SAME', 'VALID'] as const;

const conv2d: readonly GradientCase[] = [
  ...PADDINGS.map((padding) => ({
    op: 'Conv2D',
    inputs: [f([2, 5, 4, 2]), f([3, 2, 2, 3])],
    attrs: { strides: [1, 2, 1, 1], padding },
  })),
  {
    op: 'Conv2D',
    name: 'padded explicitly',
    inputs: [f([1, 4, 4, 1]), f([3, 3, 1, 1])],
    attrs: { strides: [1, 1, 1, 1], padding: 'EXPLICIT', explicit_paddings: [0, 0, 1, 0, 2, 1, 0, 0] },
  },
  {
    op: 'Conv2D',
    inputs: [f([0, 4, 4, 1]), f([2, 2, 1, 1])],
    attrs: { strides: [1, 1, 1, 1], padding: 'SAME' },
  },
  {
    op: 'Conv2D',
    order: 2,
    inputs: [f([1, 4, 4, 1]), f([2, 2, 1, 2])],
    attrs: { strides: [1, 1, 1, 1], padding: 'SAME' },
  },
  {
    op: 'Conv2DBackpropInput',
    inputs: [ints([1, 4, 4, 2]), f([2, 2, 2, 3]), f([1, 2, 2, 3])],
    attrs: { strides: [1, 2, 2, 1], padding: 'SAME' },
  },
  {
    op: 'Conv2DBackpropFilter',
    inputs: [f([1, 4, 4, 2]), ints([2, 2, 2, 3]), f([1, 2, 2, 3])],
    attrs: { strides: [1, 2, 2, 1], padding: 'SAME' },
  },
];

const depthwise: readonly GradientCase[] = [
  ...PADDINGS.map((padding) => ({
    op: 'DepthwiseConv2dNative',
    inputs: [f([2, 5, 4, 2]), f([3, 2, 2, 3])],
    attrs: { strides: [1, 1, 1, 1], padding },
  })),
  {
    op: 'DepthwiseConv2dNativeBackpropInput',
    inputs: [ints([1, 4, 4, 2]), f([2, 2, 2, 1]), f([1, 2, 2, 2])],
    attrs: { strides: [1, 2, 2, 1], padding: 'SAME' },
  },
  {
    op: 'DepthwiseConv2dNativeBackpropFilter',
    inputs: [f([1, 4, 4, 2]), ints([2, 2, 2, 1]), f([1, 2, 2, 2])],
    attrs: { strides: [1, 2, 2, 1], padding: 'SAME' },
  },
];

const conv3d: readonly GradientCase[] = [
  ...PADDINGS.map((padding) => ({
    op: 'Conv3D',
    inputs: [f([1, 3, 4, 3, 2]), f([2, 2, 2, 2, 1])],
    attrs: { strides: [1, 1, 2, 1, 1], padding },
  })),
  {
    op: 'Conv3DBackpropInputV2',
    inputs: [ints([1, 2, 2, 2, 1]), f([2, 2, 2, 1, 1]), f([1, 2, 2, 2, 1])],
    attrs: { strides: [1, 1, 1, 1, 1], padding: 'SAME' },
  },
  {
    op: 'Conv3DBackpropFilterV2',
    inputs: [f([1, 2, 2, 2, 1]), ints([2, 2, 2, 1, 1]), f([1, 2, 2, 2, 1])],
    attrs: { strides: [1, 1, 1, 1, 1], padding: 'SAME' },
  },
];

const pool = (padding: string) => ({ ksize: [1, 2, 2, 1], strides: [1, 2, 1, 1], padding });
const pool3d = (padding: string) => ({ ksize: [1, 2, 2, 2, 1], strides: [1, 1, 1, 1, 1], padding });
/** All elements differ by at least 0.1, so that each window has a unique maximum. */
const distinct = (shape: readonly number[]): InputSpec => {
  const size = shape.reduce((product, dim) => product * dim, 1);
  return { ...f(shape), values: Array.from({ length: size }, (_, i) => ((i * 37) % size) / 10) };
};

const pools: readonly GradientCase[] = [
  ...PADDINGS.flatMap((padding): GradientCase[] => [
    { op: 'AvgPool', inputs: [f([1, 4, 5, 2])], attrs: pool(padding) },
    { op: 'MaxPool', inputs: [distinct([1, 4, 5, 2])], attrs: pool(padding) },
    {
      op: 'MaxPoolV2',
      inputs: [distinct([1, 4, 5, 2]), ints([1, 2, 2, 1]), ints([1, 2, 1, 1])],
      attrs: { padding },
    },
    { op: 'AvgPool3D', inputs: [f32([1, 3, 2, 2, 1])], attrs: pool3d(padding), step: 0.1 },
    { op: 'MaxPool3D', inputs: [f32([1, 3, 2, 2, 1])], attrs: pool3d(padding), step: 0.01 },
  ]),
  { op: 'AvgPoolGrad', inputs: [ints([1, 4, 5, 2]), f([1, 2, 5, 2])], attrs: pool('SAME') },
  {
    op: 'AvgPool3DGrad',
    inputs: [ints([1, 3, 2, 2, 1]), f32([1, 3, 2, 2, 1])],
    attrs: pool3d('SAME'),
    step: 0.1,
  },
];

/** The gradient op of a max pool takes the input, its maxima and the incoming gradient; it is linear in the last. */
const poolGradients: readonly GradientCase[] = [
  {
    op: 'MaxPoolGrad',
    order: 2,
    inputs: [distinct([1, 4, 4, 1])],
    build: ([x]) => [squared(raw.maxPool(x as Output, MAX_POOL))],
    nullIsZero: FLAT,
  },
  {
    op: 'MaxPoolGradV2',
    order: 2,
    inputs: [distinct([1, 4, 4, 1]), ints([1, 2, 2, 1])],
    build: ([x, size]) => [
      squared(raw.maxPoolV2(x as Output, size as Output, size as Output, { padding: 'VALID' })),
    ],
    nullIsZero: FLAT,
  },
  {
    op: 'MaxPool3DGrad',
    order: 2,
    inputs: [{ ...distinct([1, 2, 4, 4, 1]), dtype: 'float32' }],
    step: 0.001,
    build: ([x]) => [squared(raw.maxPool3D(x as Output, MAX_POOL_3D))],
    nullIsZero: FLAT,
  },
  {
    op: 'MaxPoolGradGrad',
    inputs: [distinct([1, 4, 4, 1]), f([1, 4, 4, 1])],
    build: ([x, inner]) => [
      raw.maxPoolGradGrad(x as Output, raw.maxPool(x as Output, MAX_POOL), inner as Output, MAX_POOL),
    ],
    nullIsZero: FLAT,
  },
  {
    op: 'MaxPoolGradGradV2',
    inputs: [distinct([1, 4, 4, 1]), f([1, 4, 4, 1]), ints([1, 2, 2, 1])],
    build: ([x, inner, size]) => {
      const [image, window] = [x as Output, size as Output];
      const padding = 'VALID';
      const y = raw.maxPoolV2(image, window, window, { padding });
      return [raw.maxPoolGradGradV2(image, y, inner as Output, window, window, { padding })];
    },
    noOracle: 'TensorFlow has no gradient for it',
  },
  {
    op: 'MaxPool3DGradGrad',
    inputs: [{ ...distinct([1, 2, 4, 4, 1]), dtype: 'float32' }, f32([1, 2, 4, 4, 1])],
    step: 0.001,
    build: ([x, inner]) => [
      raw.maxPool3DGradGrad(
        x as Output,
        raw.maxPool3D(x as Output, MAX_POOL_3D),
        inner as Output,
        MAX_POOL_3D,
      ),
    ],
    nullIsZero: FLAT,
  },
  {
    op: 'MaxPoolWithArgmax',
    inputs: [distinct([2, 4, 4, 2])],
    attrs: { ...pool('SAME'), include_batch_in_index: true },
    outputs: [0],
  },
];

const MAX_POOL = { ksize: [1, 2, 2, 1], strides: [1, 2, 2, 1], padding: 'VALID' } as const;
const MAX_POOL_3D = { ksize: [1, 1, 2, 2, 1], strides: [1, 1, 2, 2, 1], padding: 'VALID' } as const;
const squared = (x: Output): Output => raw.square(x);

const on = (name: string): Readonly<Record<string, boolean>> => (name ? { [name]: true } : {});

const resizes: readonly GradientCase[] = [
  ...['', 'align_corners', 'half_pixel_centers'].flatMap((name): GradientCase[] => [
    { op: 'ResizeBilinear', inputs: [f32([1, 3, 4, 2]), ints([5, 3])], attrs: on(name), step: 0.1 },
    { op: 'ResizeNearestNeighbor', inputs: [f([1, 3, 4, 2]), ints([5, 3])], attrs: on(name) },
  ]),
  { op: 'ResizeBicubic', inputs: [f32([1, 3, 4, 2]), ints([5, 3])], step: 0.1 },
  {
    op: 'ResizeNearestNeighborGrad',
    inputs: [f([1, 5, 3, 2]), ints([3, 4])],
    noOracle: 'TensorFlow has no gradient for it',
  },
];

export const convCases: readonly GradientCase[] = [
  ...conv2d,
  ...depthwise,
  ...conv3d,
  ...pools,
  ...poolGradients,
  ...resizes,
];
