/** Keeps gradients within bounds, dense ones and indexed slices alike; slices stay slices. */
import { invalid } from '../errors/errors.js';
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
import type { Scalar } from './hyperparameters.js';

const valuesOf = (gradient: Gradient): Output =>
  gradient instanceof IndexedSlices ? gradient.values : gradient;

function withValues<G extends Gradient>(gradient: G, values: Output): G {
  return (
    gradient instanceof IndexedSlices
      ? new IndexedSlices(values, gradient.indices, gradient.denseShape, gradient.isDistinct)
      : values
  ) as G;
}

/** Every element at least `low` and at most `high`. Rows of slices that repeat are clipped each by itself. */
export function clipGradientByValue<G extends Gradient>(gradient: G, low: Operand, high: Operand): G {
  return withValues(gradient, maximum(minimum(valuesOf(gradient), high), low));
}

export interface ClipByNormOptions {
  /** The axes over which the norm is taken; all when left out. */
  readonly axis?: number | readonly number[];
}

/** Scaled down so that its Euclidean norm is at most `clipNorm`; the direction stays. */
export function clipByNorm<G extends Gradient>(
  gradient: G,
  clipNorm: Scalar,
  { axis }: ClipByNormOptions = {},
): G {
  const limit = checkNorm(clipNorm);
  const values = valuesOf(gradient);
  const squares = sum(mul(values, values), { axis, keepDims: true });
  const positive = greater(squares, 0);
  // The root is taken of 1 where the sum is 0: its gradient at 0 would be infinite.
  const norm = where(positive, sqrt(where(positive, squares, onesLike(squares))), squares);
  return withValues(gradient, div(mul(values, limit), maximum(norm, limit)));
}

/** The Euclidean norm of all gradients together; nulls do not count. */
export function globalNorm(gradients: readonly (Gradient | null)[], options: OpOptions = {}): Output {
  const halves = gradients.flatMap((gradient) => {
    if (gradient === null) return [];
    const values = valuesOf(gradient);
    return [values.graph.colocateWith(values, () => l2Loss(values))];
  });
  if (halves.length === 0) throw invalid('globalNorm needs at least one gradient');
  return sqrt(mul(sum(stack(halves)), 2), { name: 'global_norm', ...options });
}

/**
 * All scaled down together so that their global norm is at most `clipNorm`, and that norm from before. If
 * the norm is not finite every clipped gradient is NaN: a step that went wrong shows.
 */
export function clipByGlobalNorm<G extends Gradient | null>(
  gradients: readonly G[],
  clipNorm: Scalar,
  { useNorm }: { readonly useNorm?: Output } = {},
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

function checkNorm(clipNorm: Scalar): Scalar {
  if (isOutputLike(clipNorm)) return clipNorm;
  if (typeof clipNorm !== 'number' || !(clipNorm > 0) || clipNorm === Number.POSITIVE_INFINITY) {
    throw invalid(`A norm to clip to must be a finite number above 0; it is ${String(clipNorm)}`);
  }
  return clipNorm;
}
