/** Pooling over sequences and volumes; that of images is in ../pooling.ts. */
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, squeeze } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { avgPool, maxPool } from '../../ops/nn.js';
import { POOLING_NAMES, type PoolingOptions } from '../pooling.js';
import { checkRank, layerOptions } from '../weights.js';
import { around, paddingName, sizesOf, type Triple } from './sizes.js';

const ofSequences =
  (layer: 'maxPooling1d' | 'averagePooling1d', name: string, pool: typeof maxPool) =>
  (inputs: Operand, size = 2, strides = size, given: OrNull<PoolingOptions> = {}): Output => {
    const { padding = 'valid', ...rest } = layerOptions(layer, POOLING_NAMES, given);
    const x = asOutput(inputs);
    checkRank(layer, x, 3);
    const image = expandDims(x, 1);
    return squeeze(pool(image, { size: [1, size], strides: [1, strides], padding, name, ...rest }), [1]);
  };

const ofVolumes =
  (layer: 'maxPooling3d' | 'averagePooling3d', name: string, pool: typeof raw.avgPool3D) =>
  (inputs: Operand, size: Triple = 2, strides: Triple = size, given: OrNull<PoolingOptions> = {}): Output => {
    const { padding = 'valid', ...rest } = layerOptions(layer, POOLING_NAMES, given);
    const x = asOutput(inputs);
    checkRank(layer, x, 5);
    return pool(x as Output<'float32'>, {
      ksize: around(sizesOf(layer, 'the size', size, 3)),
      strides: around(sizesOf(layer, 'strides', strides, 3)),
      padding: paddingName(padding),
      name,
      ...rest,
    });
  };

export const maxPooling1d = ofSequences('maxPooling1d', 'max_pooling1d', maxPool);
/** The mean of each window, over elements inside the sequence only. */
export const averagePooling1d = ofSequences('averagePooling1d', 'average_pooling1d', avgPool);
export const maxPooling3d = ofVolumes(
  'maxPooling3d',
  'max_pooling3d',
  raw.maxPool3D as unknown as typeof raw.avgPool3D,
);
/** The mean of each window, over elements inside the volume only. */
export const averagePooling3d = ofVolumes('averagePooling3d', 'average_pooling3d', raw.avgPool3D);
