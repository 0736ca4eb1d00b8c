/** Gradient clipping, for dense gradients and IndexedSlices; IndexedSlices stay sparse. */

import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { type Gradient, IndexedSlices } from '../gradients/index.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { stack } from '../ops/arrays.js';
import { isOutputLike, type Operand } from '../ops/build.js';
import { onesLike } from '../ops/creation.js';
import {
  add,
  cast,
  div,
  greater,
  l2Loss,
  maximum,
  minimum,
  mul,
  sqrt,
  sub,
  sum,
  where,
} from '../ops/math.js';
import type { ScalarLike } from './hyperparameters.js';

const valuesOf = (gradient: Gradient): Output =>
  gradient instanceof IndexedSlices ? gradient.values : gradient;

function withValues<G extends Gradient>(gradient: G, values: Output): G {
  return (
    gradient instanceof IndexedSlices
      ? new IndexedSlices(values, gradient.indices, gradient.denseShape, gradient.isDistinct)
      : values
  ) as G;
}

/** Clips every element to [low, high]. Repeated rows of IndexedSlices are clipped separately. */
export function clipGradientByValue<G extends Gradient>(gradient: G, low: Operand, high: Operand): G {
  return withValues(gradient, maximum(minimum(valuesOf(gradient), high), low));
}

export interface ClipByNormOptions {
  /** The axes over which the norm is computed. Default: all. */
  readonly axis?: number | readonly number[];
}

/** Scales the gradient down so that its Euclidean norm is at most `clipNorm`; keeps its direction. */
export function clipByNorm<G extends Gradient>(
  gradient: G,
  clipNorm: ScalarLike,
  { axis }: OrNull<ClipByNormOptions> = {},
): G {
  const limit = checkNorm(clipNorm);
  const values = valuesOf(gradient);
  const squares = sum(mul(values, values), { axis, keepDims: true });
  const positive = greater(squares, 0);
  // Where the sum is 0, takes the root of 1: the gradient of the root at 0 would be infinite.
  const norm = where(positive, sqrt(where(positive, squares, onesLike(squares))), squares);
  return withValues(gradient, div(mul(values, limit), maximum(norm, limit)));
}

/** The Euclidean norm of all gradients together; nulls are skipped. */
export function globalNorm(gradients: readonly (Gradient | null)[], options: OpOptions = {}): Output {
  const halves = gradients.flatMap((gradient) => {
    if (gradient === null) return [];
    const values = valuesOf(gradient);
    return [values.graph.colocateWith(values, () => l2Loss(values))];
  });
  if (halves.length === 0) throw invalid('globalNorm needs at least one gradient');
  return sqrt(mul(sum(stack(halves)), 2), { ...options, name: options.name ?? 'global_norm' });
}

/**
 * Scales all gradients by one factor so that their global norm is at most `clipNorm`. Also returns the norm before
 * clipping. If that norm is not finite, every clipped gradient is NaN, so the failure is visible.
 */
export function clipByGlobalNorm<G extends Gradient | null>(
  gradients: readonly G[],
  clipNorm: ScalarLike,
  { useNorm }: { readonly useNorm?: Output | null } = {},
): [G[], Output] {
  const limit = checkNorm(clipNorm);
  const norm = useNorm ?? globalNorm(gradients);
  const finite = mul(minimum(div(1, norm), div(onesLike(norm), limit)), limit);
  const scale = add(finite, sub(norm, norm));
  const clipped = gradients.map((gradient) => {
    if (gradient === null) return gradient;
    const values = valuesOf(gradient);
    const scaled = values.graph.colocateWith(values, () => mul(values, cast(scale, values.dtype)));
    return withValues(gradient, scaled) as G;
  });
  return [clipped, norm];
}

function checkNorm(clipNorm: ScalarLike): ScalarLike {
  if (isOutputLike(clipNorm)) return clipNorm;
  if (typeof clipNorm !== 'number' || !(clipNorm > 0) || clipNorm === Number.POSITIVE_INFINITY) {
    throw invalid(`clipNorm must be a finite number above 0; got ${String(clipNorm)}`);
  }
  return clipNorm;
}
