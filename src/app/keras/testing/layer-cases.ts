/** The models that are compared with Keras: at least one for each layer. */
import { seededRandom } from '../../../tensorflow/tensor/seeded-random.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Input, type Layer, layers, Model, Sequential, type SymbolicTensor } from '../index.js';

export type AnyModel = Model<SymbolicTensor | readonly SymbolicTensor[]>;

export interface LayerCase {
  readonly title: string;
  readonly model: AnyModel;
  /** Of the inputs `in0`, `in1`… */
  readonly inputs: readonly Tensor[];
}

const random = seededRandom(7);
const floats = (...shape: number[]): Tensor =>
  Tensor.of(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random() * 2 - 1),
    { shape },
  );
const ids = (limit: number, ...shape: number[]): Tensor =>
  Tensor.of(
    Int32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => Math.floor(random() * limit)),
    { shape },
  );
/** Sequences of which the last steps are 0, and the first step of one. */
const padded = (): Tensor => {
  const x = floats(3, 5, 3);
  const data = x.data as Float32Array;
  data.fill(0, 9, 15);
  data.fill(0, 15, 18);
  return x;
};

type Functional = (...inputs: SymbolicTensor[]) => SymbolicTensor | readonly SymbolicTensor[];

function functional(title: string, inputs: readonly Tensor[], make: Functional): LayerCase {
  const symbols = inputs.map(({ dtype, shape }, i) =>
    Input({ shape: shape.slice(1), dtype, name: `in${i}` }),
  );
  return { title, inputs, model: new Model({ inputs: symbols, outputs: make(...symbols) }) };
}

const one = (title: string, x: Tensor, ...made: readonly (Layer | Model)[]): LayerCase => ({
  title,
  inputs: [x],
  model: new Sequential([
    Input({ shape: x.shape.slice(1), dtype: x.dtype, name: 'in0' }),
    ...made,
  ]) as unknown as AnyModel,
});

const ACTIVATIONS = [
  'elu',
  'exponential',
  'gelu',
  'hardSigmoid',
  'leakyRelu',
  'linear',
  'logSoftmax',
  'mish',
  'relu',
  'relu6',
  'selu',
  'sigmoid',
  'silu',
  'softmax',
  'softplus',
  'softsign',
  'swish',
  'tanh',
] as const;

export function layerCases(): readonly LayerCase[] {
  const image = () => floats(2, 5, 6, 3);
  const volume = () => floats(2, 4, 5, 4, 2);
  const steps = () => floats(2, 5, 3);
  const joined = (title: string, make: () => Layer, count = 3) =>
    functional(
      title,
      Array.from({ length: count }, () => floats(2, 3, 4)),
      (...inputs) => make().apply(inputs),
    );
  return [
    one('dense', steps(), layers.dense(4, { activation: 'relu', kernelRegularizer: 'l2' })),
    one(
      'dense without bias',
      floats(3, 4),
      layers.dense(2, { useBias: false, kernelInitializer: 'he_normal' }),
    ),
    ...ACTIVATIONS.map((name) => one(`activation ${name}`, floats(3, 4), layers.activation(name))),
    one('dropout', steps(), layers.dropout(0.4)),
    one('flatten', image(), layers.flatten()),
    one('reshape', floats(2, 6), layers.reshape([-1, 2])),
    one('repeatVector', floats(2, 3), layers.repeatVector(4)),
    one('permute', image(), layers.permute([3, 1, 2])),
    one('batchNorm', image(), layers.batchNorm()),
    one('batchNorm along axis 1', steps(), layers.batchNorm({ axis: 1, epsilon: 0.01, scale: false })),
    one('layerNorm', steps(), layers.layerNorm()),
    one('embedding', ids(6, 3, 4), layers.embedding(6, 3)),
    // Convolutions
    one('conv1d', steps(), layers.conv1d(4, 3, { activation: 'tanh' })),
    one('conv1d, causal', steps(), layers.conv1d(4, 2, { padding: 'causal', strides: 2 })),
    one('conv2d', image(), layers.conv2d(4, [3, 2], { strides: [2, 1], padding: 'same' })),
    one('conv3d', volume(), layers.conv3d(3, 2, { strides: [1, 2, 1], padding: 'same' })),
    one('conv3d, valid', volume(), layers.conv3d(3, [2, 3, 2])),
    one('conv1dTranspose', steps(), layers.conv1dTranspose(4, 3, { strides: 2 })),
    one('conv1dTranspose, same', steps(), layers.conv1dTranspose(4, 3, { strides: 2, padding: 'same' })),
    one('conv2dTranspose', image(), layers.conv2dTranspose(4, [3, 2], { strides: 2 })),
    one('conv2dTranspose, same', image(), layers.conv2dTranspose(4, 3, { strides: [2, 3], padding: 'same' })),
    one('conv3dTranspose', volume(), layers.conv3dTranspose(3, 2, { strides: 2, padding: 'same' })),
    one('depthwiseConv1d', steps(), layers.depthwiseConv1d(3, { depthMultiplier: 2 })),
    one('depthwiseConv1d, strided', steps(), layers.depthwiseConv1d(3, { strides: 2, padding: 'same' })),
    one('depthwiseConv2d', image(), layers.depthwiseConv2d(3, { depthMultiplier: 2, padding: 'same' })),
    one('depthwiseConv2d, strided', image(), layers.depthwiseConv2d([2, 3], { strides: 2 })),
    one('separableConv1d', steps(), layers.separableConv1d(4, 3, { padding: 'same' })),
    one('separableConv2d', image(), layers.separableConv2d(4, 3, { depthMultiplier: 2, activation: 'relu' })),
    // Pooling
    one('maxPooling1d', steps(), layers.maxPooling1d(2)),
    one('maxPooling2d', image(), layers.maxPooling2d([2, 3], 2, { padding: 'same' })),
    one('maxPooling3d', volume(), layers.maxPooling3d()),
    one('averagePooling1d', steps(), layers.averagePooling1d(3, 1, { padding: 'same' })),
    one('averagePooling2d', image(), layers.averagePooling2d()),
    one('averagePooling3d', volume(), layers.averagePooling3d(2, 1)),
    ...(['Average', 'Max'] as const).flatMap((kind) => [
      one(`global${kind}Pooling1d`, steps(), layers[`global${kind}Pooling1d`]()),
      one(`global${kind}Pooling2d`, image(), layers[`global${kind}Pooling2d`]({ keepdims: true })),
      one(`global${kind}Pooling3d`, volume(), layers[`global${kind}Pooling3d`]()),
    ]),
    // Sizes
    one('zeroPadding1d', steps(), layers.zeroPadding1d([1, 2])),
    one(
      'zeroPadding2d',
      image(),
      layers.zeroPadding2d([
        [1, 0],
        [2, 1],
      ]),
    ), // prettier-ignore
    one('zeroPadding3d', volume(), layers.zeroPadding3d([1, 0, 2])),
    one('cropping1d', steps(), layers.cropping1d([1, 2])),
    one(
      'cropping2d',
      image(),
      layers.cropping2d([
        [1, 0],
        [2, 1],
      ]),
    ), // prettier-ignore
    one('cropping3d', volume(), layers.cropping3d()),
    one('upSampling1d', steps(), layers.upSampling1d(3)),
    one('upSampling2d', image(), layers.upSampling2d([2, 3])),
    one('upSampling2d, bilinear', image(), layers.upSampling2d(2, { interpolation: 'bilinear' })),
    one('upSampling3d', volume(), layers.upSampling3d([1, 2, 2])),
    // Several inputs
    joined('add', () => layers.add()),
    joined('subtract', () => layers.subtract(), 2),
    joined('multiply', () => layers.multiply()),
    joined('average', () => layers.average()),
    joined('maximum', () => layers.maximum()),
    joined('minimum', () => layers.minimum()),
    joined('concatenate', () => layers.concatenate({ axis: 1 })),
    joined('dot', () => layers.dot(2), 2),
    functional('dot of vectors', [floats(3, 4), floats(3, 4)], (a, b) => layers.dot(1).apply([a!, b!])),
    functional('one tensor broadcast', [floats(2, 3, 4), floats(2, 1, 4)], (a, b) =>
      layers.add().apply([a!, b!]),
    ),
    // Recurrent layers
    one('simpleRnn', steps(), layers.simpleRnn(4)),
    one(
      'simpleRnn, relu, backwards',
      steps(),
      layers.simpleRnn(4, { activation: 'relu', goBackwards: true }),
    ),
    one('lstm', steps(), layers.lstm(4)),
    one('lstm, all steps', steps(), layers.lstm(4, { returnSequences: true }), layers.lstm(2)),
    one(
      'lstm, masked',
      padded(),
      layers.masking(),
      layers.lstm(4, { returnSequences: true }),
      layers.lstm(3),
    ),
    one('gru', steps(), layers.gru(4, { returnSequences: true })),
    one('gru, reset before', steps(), layers.gru(4, { resetAfter: false })),
    one('gru, masked', padded(), layers.masking(), layers.gru(4)),
    functional('lstm with its state', [steps(), floats(2, 4), floats(2, 4)], (x, h, c) => {
      const [, last, cell] = layers.lstm(4, { returnState: true }).applyAll([x!, h!, c!]);
      const y = layers.lstm(4).apply([x!, last!, cell!]);
      return [y, last!, cell!];
    }),
    one('bidirectional', steps(), layers.bidirectional(layers.lstm(3))),
    one(
      'bidirectional, all steps, masked',
      padded(),
      layers.masking(),
      layers.bidirectional(layers.gru(3, { returnSequences: true }), { mergeMode: 'sum' }),
      layers.globalAveragePooling1d(),
    ),
    functional('bidirectional with its state', [steps()], (x) =>
      layers.bidirectional(layers.lstm(3, { returnState: true }), { mergeMode: 'ave' }).applyAll(x!),
    ),
    one('embedding that masks', ids(3, 3, 5), layers.embedding(6, 3, { maskZero: true }), layers.lstm(3)),
    one('timeDistributed', floats(2, 3, 5, 6, 2), layers.timeDistributed(layers.conv2d(3, 2))),
    // Attention
    functional('multiHeadAttention', [steps(), floats(2, 4, 3)], (q, v) =>
      layers.multiHeadAttention(2, 4).apply([q!, v!]),
    ),
    functional('multiHeadAttention with keys', [steps(), floats(2, 4, 5), floats(2, 4, 2)], (q, v, k) =>
      layers.multiHeadAttention(2, 4, { valueDim: 3, outputSize: 6, useBias: false }).apply([q!, v!, k!]),
    ),
    functional('multiHeadAttention, causal', [steps()], (x) =>
      layers.multiHeadAttention(3, 2, { useCausalMask: true }).apply([x!, x!]),
    ),
    functional('multiHeadAttention, masked', [ids(3, 3, 5)], (x) => {
      const e = layers.embedding(4, 6, { maskZero: true }).apply(x!);
      return layers.globalAveragePooling1d().apply(layers.multiHeadAttention(2, 3).apply([e, e]));
    }),
    // Models in models
    functional('a model as a layer, twice', [floats(2, 3), floats(2, 3)], (a, b) => {
      const tower = new Sequential([
        Input({ shape: [3], name: 'in0' }),
        layers.dense(4, { activation: 'tanh', name: 'inner' }),
        layers.dense(3, { name: 'outer' }),
      ]);
      return layers.add().apply([tower.apply(a!), tower.apply(b!)]);
    }),
    one(
      'a model at each step',
      steps(),
      layers.timeDistributed(
        new Sequential([Input({ shape: [3], name: 'in0' }), layers.dense(2, { name: 'inner' })]),
      ),
    ),
  ];
}
