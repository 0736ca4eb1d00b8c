/** The classes of Keras that Shoal has as layers, with their positional arguments in the names of Keras' configuration. */

import type { Layer } from '../layer.js';
import * as layers from '../layers/index.js';

export interface LayerClass {
  /** The name of the function in `tf.keras.layers`. */
  readonly name: string;
  readonly make: (...args: never[]) => Layer;
  /** The keys of the configuration that are arguments, in order; the others are options. */
  readonly args: readonly string[];
}

/** The functions by name. */
const FUNCTIONS: Readonly<Record<string, unknown>> = { ...layers };

const entry = (name: keyof typeof layers, ...args: string[]): LayerClass => ({
  name,
  make: FUNCTIONS[name] as LayerClass['make'],
  args,
});

const POOL = ['poolSize', 'strides'];
const CONV = ['filters', 'kernelSize'];

export const LAYER_CLASSES: Readonly<Record<string, LayerClass>> = {
  Dense: entry('dense', 'units'),
  Activation: entry('activation', 'activation'),
  Dropout: entry('dropout', 'rate'),
  Flatten: entry('flatten'),
  Reshape: entry('reshape', 'targetShape'),
  RepeatVector: entry('repeatVector', 'n'),
  Permute: entry('permute', 'dims'),
  Masking: entry('masking', 'maskValue'),
  Embedding: entry('embedding', 'inputDim', 'outputDim'),
  BatchNormalization: entry('batchNorm'),
  LayerNormalization: entry('layerNorm'),
  Conv1D: entry('conv1d', ...CONV),
  Conv2D: entry('conv2d', ...CONV),
  Conv3D: entry('conv3d', ...CONV),
  Conv1DTranspose: entry('conv1dTranspose', ...CONV),
  Conv2DTranspose: entry('conv2dTranspose', ...CONV),
  Conv3DTranspose: entry('conv3dTranspose', ...CONV),
  DepthwiseConv1D: entry('depthwiseConv1d', 'kernelSize'),
  DepthwiseConv2D: entry('depthwiseConv2d', 'kernelSize'),
  SeparableConv1D: entry('separableConv1d', ...CONV),
  SeparableConv2D: entry('separableConv2d', ...CONV),
  MaxPooling1D: entry('maxPooling1d', ...POOL),
  MaxPooling2D: entry('maxPooling2d', ...POOL),
  MaxPooling3D: entry('maxPooling3d', ...POOL),
  AveragePooling1D: entry('averagePooling1d', ...POOL),
  AveragePooling2D: entry('averagePooling2d', ...POOL),
  AveragePooling3D: entry('averagePooling3d', ...POOL),
  GlobalAveragePooling1D: entry('globalAveragePooling1d'),
  GlobalAveragePooling2D: entry('globalAveragePooling2d'),
  GlobalAveragePooling3D: entry('globalAveragePooling3d'),
  GlobalMaxPooling1D: entry('globalMaxPooling1d'),
  GlobalMaxPooling2D: entry('globalMaxPooling2d'),
  GlobalMaxPooling3D: entry('globalMaxPooling3d'),
  ZeroPadding1D: entry('zeroPadding1d', 'padding'),
  ZeroPadding2D: entry('zeroPadding2d', 'padding'),
  ZeroPadding3D: entry('zeroPadding3d', 'padding'),
  Cropping1D: entry('cropping1d', 'cropping'),
  Cropping2D: entry('cropping2d', 'cropping'),
  Cropping3D: entry('cropping3d', 'cropping'),
  UpSampling1D: entry('upSampling1d', 'size'),
  UpSampling2D: entry('upSampling2d', 'size'),
  UpSampling3D: entry('upSampling3d', 'size'),
  SimpleRNN: entry('simpleRnn', 'units'),
  LSTM: entry('lstm', 'units'),
  GRU: entry('gru', 'units'),
  Bidirectional: entry('bidirectional', 'layer'),
  TimeDistributed: entry('timeDistributed', 'layer'),
  MultiHeadAttention: entry('multiHeadAttention', 'numHeads', 'keyDim'),
  Add: entry('add'),
  Subtract: entry('subtract'),
  Multiply: entry('multiply'),
  Average: entry('average'),
  Maximum: entry('maximum'),
  Minimum: entry('minimum'),
  Concatenate: entry('concatenate'),
  Dot: entry('dot', 'axes'),
};

/** Options whose names differ: Shoal's, Keras'. */
const RENAMED = [
  ['dilations', 'dilation_rate'],
  ['outputSize', 'output_shape'],
] as const;

export const kerasOption = (name: string): string =>
  RENAMED.find(([ours]) => ours === name)?.[1] ??
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export const ownOption = (name: string): string =>
  RENAMED.find(([, theirs]) => theirs === name)?.[0] ??
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** Options of Keras that Shoal does not have, with the values that change nothing. */
export const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  data_format: ['channels_last'],
  groups: [1],
  stateful: [false],
  unroll: [false],
  zero_output_for_mask: [false, true],
  synchronized: [false],
  renorm: [false],
  renorm_momentum: [0.99],
  rms_scaling: [false],
  use_gate: [false],
  attention_axes: [[1]],
  normalize: [false],
  sparse: [false],
  ragged: [false],
  trainable: [true],
  seed: [],
};
