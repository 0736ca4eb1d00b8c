/** Attention layers. */
import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { LAYER_OPTIONS } from '../../../tensorflow/layers/known-options.js';
import {
  type AttentionOptions,
  multiHeadAttention as build,
} from '../../../tensorflow/layers/sequence/attention.js';
import { expandDims } from '../../../tensorflow/ops/arrays.js';
import { logicalAnd } from '../../../tensorflow/ops/math.js';
import type { Layer } from '../layer.js';
import { define, type Options } from './define.js';

export type AttentionLayerOptions = Omit<AttentionOptions, 'keyDim'>;

/**
 * Attention with several heads, each of `keyDim` elements. Applied to [query, value], or [query, value, key]; one tensor
 * attends to itself: `apply([x, x])`.
 */
export const multiHeadAttention = (
  numHeads: number,
  keyDim: number,
  options: OrNull<Options<AttentionLayerOptions>> = {},
): Layer =>
  define<Options<AttentionLayerOptions>>(
    {
      className: 'MultiHeadAttention',
      args: { numHeads, keyDim },
      options,
      known: { ...LAYER_OPTIONS.multiHeadAttention, keyDim: undefined },
      inputs: { atLeast: 2 },
      body: (inputs, { name, reuse, training, masks }, own: AttentionLayerOptions) => {
        const [query, value, key = value, ...others] = inputs as [Output, Output, ...Output[]];
        if (others.length > 0)
          throw invalid(`Layer ${name} is applied to [query, value] or [query, value, key]`);
        const [queryMask, valueMask, keyMask] = masks;
        const all = [
          ...(queryMask ? [expandDims(queryMask, -1)] : []),
          ...[valueMask, keyMask].flatMap((mask) => (mask ? [expandDims(mask, 1)] : [])),
        ];
        const mask = all.length > 0 ? all.reduce((a, b) => logicalAnd(a, b)) : undefined;
        const output = build(query, value, key as Output, numHeads, {
          ...own,
          keyDim,
          name,
          reuse,
          training,
          ...(mask && { mask }),
        });
        return { outputs: [output], masks: [queryMask] };
      },
    },
    { opensScope: true, saved: { whenApplied: ['useCausalMask'] } },
  );
