/** The names of the options of each layer, for layers of models. */
import { BATCH_NORM_NAMES } from './batch-norm.js';
import { CONV2D_NAMES } from './convolution.js';
import { DROPOUT_NAMES } from './dropout.js';
import { EMBEDDING_NAMES } from './embedding.js';
import { POOLING_NAMES } from './pooling.js';
import { AFFINE_NAMES, NORM_NAMES } from './weights.js';

export const LAYER_OPTIONS = {
  dense: AFFINE_NAMES,
  conv2d: CONV2D_NAMES,
  embedding: EMBEDDING_NAMES,
  batchNorm: BATCH_NORM_NAMES,
  layerNorm: NORM_NAMES,
  dropout: DROPOUT_NAMES,
  maxPooling2d: POOLING_NAMES,
  averagePooling2d: POOLING_NAMES,
} as const;
