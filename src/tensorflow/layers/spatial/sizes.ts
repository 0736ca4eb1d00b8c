/** Sizes along one, two or three spatial axes, between the batch and the channels. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { slice } from '../../ops/arrays.js';
import * as raw from '../../ops/generated/index.js';
import { checkCount } from '../weights.js';

export type Triple = number | readonly [number, number, number];
/** One size for all spatial axes, or one for each. */
export type Sizes = number | readonly number[];

/** One positive integer for each of `rank` axes. */
export function sizesOf(layer: string, what: string, given: Sizes, rank: number): readonly number[] {
  const sizes = typeof given === 'number' ? Array.from({ length: rank }, () => given) : given;
  if (sizes.length !== rank)
    throw invalid(`Layer ${layer}: ${what} must be a number or ${rank} of them; got ${sizes.length}`);
  for (const size of sizes) checkCount(layer, what, size);
  return sizes;
}

/** Sizes of the batch and the channels around those of the axes in between. */
export const around = (sizes: readonly number[]): number[] => [1, ...sizes, 1];

export const paddingName = (padding: string): 'SAME' | 'VALID' => (padding === 'same' ? 'SAME' : 'VALID');

/** The size of an axis: a number if it is known, else a scalar of the graph. */
export const sizeOfAxis = (x: Output, axis: number): number | Output =>
  x.shape?.[axis] ?? slice(raw.shape(x), [axis], [1]).reshape([]);
