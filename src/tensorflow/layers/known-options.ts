/** Rejects misspelled options of layers. */
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { checkNames, type Names } from '../../base/errors/option-names.js';
import type { OpOptions } from '../graph/graph.js';
import type { BatchNormOptions } from './batch-norm.js';
import type { Conv2dOptions } from './convolution.js';
import type { DenseOptions } from './dense.js';
import type { DropoutOptions } from './dropout.js';
import type { EmbeddingOptions } from './embedding.js';
import type { LayerNormOptions } from './layer-norm.js';
import type { PoolingOptions } from './pooling.js';
import type { AffineOptions, LayerOptions, NormOptions } from './weights.js';

const OP: Names<OpOptions> = { name: true, device: true, controlInputs: true };
const LAYER: Names<LayerOptions> = { name: true, reuse: true, trainable: true };
const AFFINE: Names<AffineOptions> = {
  ...LAYER,
  activation: true,
  useBias: true,
  kernelInitializer: true,
  biasInitializer: true,
  kernelRegularizer: true,
  biasRegularizer: true,
};
const NORM: Names<NormOptions> = {
  ...LAYER,
  axis: true,
  epsilon: true,
  center: true,
  scale: true,
  betaInitializer: true,
  gammaInitializer: true,
  betaRegularizer: true,
  gammaRegularizer: true,
};
const POOLING: Names<PoolingOptions> = { ...OP, padding: true };

/** The options of each layer. */
export const LAYER_OPTIONS: {
  readonly dense: Names<DenseOptions>;
  readonly conv2d: Names<Conv2dOptions>;
  readonly embedding: Names<EmbeddingOptions>;
  readonly batchNorm: Names<BatchNormOptions>;
  readonly layerNorm: Names<LayerNormOptions>;
  readonly dropout: Names<DropoutOptions>;
  readonly maxPooling2d: Names<PoolingOptions>;
  readonly averagePooling2d: Names<PoolingOptions>;
  readonly flatten: Names<OpOptions>;
} = {
  dense: AFFINE,
  conv2d: { ...AFFINE, strides: true, padding: true, dilations: true },
  embedding: {
    ...LAYER,
    dtype: true,
    embeddingsInitializer: true,
    embeddingsRegularizer: true,
    maxNorm: true,
    unique: true,
  },
  batchNorm: {
    ...NORM,
    momentum: true,
    training: true,
    movingMeanInitializer: true,
    movingVarianceInitializer: true,
    fused: true,
  },
  layerNorm: NORM,
  dropout: { ...OP, rate: true, training: true, noiseShape: true, seed: true },
  maxPooling2d: POOLING,
  averagePooling2d: POOLING,
  flatten: OP,
};

export type LayerFunction = keyof typeof LAYER_OPTIONS;

/** The options without those that are null; throws if one does not exist. */
export function layerOptions<O extends object>(layer: LayerFunction, given: OrNull<O>): O {
  const options = withoutNull<O>(given);
  checkNames(options, LAYER_OPTIONS[layer], (name) => `Layer ${layer} has an unknown option '${name}'`);
  return options;
}
