/** Cropping, padding and upsampling along the spatial axes of [batch, …, channels]. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { pad, slice, stack } from '../../ops/arrays.js';
import * as raw from '../../ops/generated/index.js';
import { cast, mul, sub } from '../../ops/math.js';
import { Tensor } from '../../tensor/tensor.js';
import { checkRank } from '../weights.js';
import { sizeOfAxis } from './sizes.js';

/** How much before and after each axis: one number for all, one for each axis, or a pair for each. */
export type Margins = number | readonly (number | readonly [before: number, after: number])[];

function marginsOf(layer: string, given: Margins, rank: number): (readonly [number, number])[] {
  // For one axis, a list of two numbers is before and after, as in Keras.
  const flat = Array.isArray(given) ? (given as readonly (number | readonly number[])[]) : undefined;
  const isPair = rank === 1 && flat?.length === 2 && flat.every((one) => typeof one === 'number');
  const list = isPair ? [flat] : (flat ?? Array.from({ length: rank }, () => given as number));
  const pairs = list.map((one) => (typeof one === 'number' ? [one, one] : one) as [number, number]);
  const isValid = (size: unknown): boolean => Number.isSafeInteger(size) && (size as number) >= 0;
  if (pairs.length === rank && pairs.every((pair) => pair.length === 2 && pair.every(isValid))) return pairs;
  throw invalid(
    `Layer ${layer} takes a number, or ${rank} numbers or pairs of numbers, of at least 0; got ${JSON.stringify(given)}`,
  );
}

/** Adds zeros before and after each spatial axis. */
export function zeroPadding(layer: string, x: Output, rank: number, margins: Margins): Output {
  checkRank(layer, x, rank + 2);
  return pad(x, [[0, 0], ...marginsOf(layer, margins, rank), [0, 0]]);
}

/** Removes elements before and after each spatial axis. */
export function cropping(layer: string, x: Output, rank: number, margins: Margins): Output {
  checkRank(layer, x, rank + 2);
  const pairs = marginsOf(layer, margins, rank);
  const sizes = pairs.map(([before, after], i) => {
    const size = sizeOfAxis(x, i + 1);
    if (typeof size === 'number' && size <= before + after)
      throw invalid(
        `Layer ${layer}: nothing is left of axis ${i + 1} of ${x} without ${before + after} elements`,
      );
    return typeof size === 'number' ? size - before - after : sub(size, before + after);
  });
  const begin = [0, ...pairs.map(([before]) => before), 0];
  if (sizes.every((size) => typeof size === 'number'))
    return slice(x, begin, [-1, ...(sizes as number[]), -1]);
  const all = stack([-1, ...sizes, -1].map((size) => cast(size, 'int32')));
  return raw.slice(x, Tensor.of(Int32Array.from(begin)), all as Output<'int32'>);
}

/** Repeats each element `factors[i]` times along spatial axis i. */
export function repeatElements(layer: string, x: Output, factors: readonly number[]): Output {
  checkRank(layer, x, factors.length + 2);
  return factors.reduce((y, factor, i) => {
    if (factor === 1) return y;
    const axis = i + 1;
    const size = sizeOfAxis(y, axis);
    const rows = cast(
      typeof size === 'number' ? size * factor : mul(size, factor),
      'int32',
    ) as Output<'int32'>;
    const numbers = raw.floorDiv(
      raw.range(Tensor.of(0, { dtype: 'int32' }), rows, Tensor.of(1, { dtype: 'int32' })),
      Tensor.of(factor, { dtype: 'int32' }),
    );
    const shape = (y.shape as readonly (number | null)[]).map((known, at) =>
      at === axis ? (typeof size === 'number' ? size * factor : null) : known,
    );
    return raw.gatherV2(y, numbers, Tensor.of(axis, { dtype: 'int32' })).setShape(shape);
  }, x);
}

/** Enlarges images by linear interpolation. */
export function resizeBilinear(layer: string, x: Output, factors: readonly number[]): Output {
  checkRank(layer, x, 4);
  const sizes = factors.map((factor, i) => {
    const size = sizeOfAxis(x, i + 1);
    return typeof size === 'number' ? size * factor : mul(size, factor);
  });
  const all = stack(sizes.map((size) => cast(size, 'int32'))) as Output<'int32'>;
  const known = sizes.map((size) => (typeof size === 'number' ? size : null));
  return raw
    .resizeBilinear(x, all, { halfPixelCenters: true })
    .setShape([x.shape?.[0] ?? null, ...known, x.shape?.[3] ?? null]);
}
