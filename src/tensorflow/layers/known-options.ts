/** The names of the options of each layer, for layers of models. */
import { BATCH_NORM_NAMES } from './batch-norm.js';
import { CONV2D_NAMES } from './convolution.js';
import { DROPOUT_NAMES } from './dropout.js';
import { EMBEDDING_NAMES } from './embedding.js';
import { POOLING_NAMES } from './pooling.js';
import { ATTENTION_NAMES } from './sequence/attention.js';
import { GRU_NAMES, LSTM_NAMES, RECURRENT_NAMES } from './sequence/options.js';
import { CONV1D_NAMES, CONV3D_NAMES } from './spatial/convolution.js';
import { DEPTHWISE_NAMES, SEPARABLE_NAMES } from './spatial/separable.js';
import { TRANSPOSE_NAMES } from './spatial/transposed.js';
import { AFFINE_NAMES, NORM_NAMES, OP_NAMES } from './weights.js';

export const LAYER_OPTIONS = {
  dense: AFFINE_NAMES,
  conv1d: CONV1D_NAMES,
  conv2d: CONV2D_NAMES,
  conv3d: CONV3D_NAMES,
  conv1dTranspose: TRANSPOSE_NAMES,
  conv2dTranspose: TRANSPOSE_NAMES,
  conv3dTranspose: TRANSPOSE_NAMES,
  depthwiseConv1d: DEPTHWISE_NAMES,
  depthwiseConv2d: DEPTHWISE_NAMES,
  separableConv1d: SEPARABLE_NAMES,
  separableConv2d: SEPARABLE_NAMES,
  simpleRnn: RECURRENT_NAMES,
  lstm: LSTM_NAMES,
  gru: GRU_NAMES,
  multiHeadAttention: ATTENTION_NAMES,
  embedding: EMBEDDING_NAMES,
  batchNorm: BATCH_NORM_NAMES,
  layerNorm: NORM_NAMES,
  dropout: DROPOUT_NAMES,
  maxPooling1d: POOLING_NAMES,
  maxPooling2d: POOLING_NAMES,
  maxPooling3d: POOLING_NAMES,
  averagePooling1d: POOLING_NAMES,
  averagePooling2d: POOLING_NAMES,
  averagePooling3d: POOLING_NAMES,
  flatten: OP_NAMES,
} as const;
