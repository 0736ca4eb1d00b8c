/** Weights and reduces element losses to a scalar loss, by TensorFlow 1's rules. */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { expandDims, size, squeeze } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { cast, divNoNan, mul, notEqual, sum } from '../../ops/math.js';
import { formatShape, type PartialShape } from '../../tensor/shape.js';
import { GraphKeys } from '../../variables/collections.js';
import { graphFor } from '../graph-for.js';

/**
 * `none`: no reduction. `sum`: the weighted sum. `mean`: the sum divided by the sum of the weights.
 * `sumOverBatchSize`: divided by the number of elements. `sumByNonzeroWeights`: by the number of nonzero weights.
 */
export type Reduction = 'none' | 'sum' | 'mean' | 'sumOverBatchSize' | 'sumByNonzeroWeights';

const REDUCTIONS: readonly Reduction[] = ['none', 'sum', 'mean', 'sumOverBatchSize', 'sumByNonzeroWeights'];

export interface LossOptions {
  /** A scalar, or a tensor of the losses' rank whose sizes equal the losses' or are 1. Default: 1. */
  readonly weights?: Operand;
  /** How the losses are combined into one; default: 'sumByNonzeroWeights'. */
  readonly reduction?: Reduction;
  /** The collection to add the loss to; null for none. Default: the collection of losses. */
  readonly collection?: string | null;
  /** The name scope of the ops; default: the name of the loss, such as `log_loss`. */
  readonly name?: string;
}

/** The weighted loss, added to the collection of losses. */
export function computeWeightedLoss(losses: Operand, given: OrNull<LossOptions> = {}): Output {
  const options = withoutNull<LossOptions>(given, ['collection']);
  const { weights = 1, reduction = 'sumByNonzeroWeights', collection = GraphKeys.losses } = options;
  checkReduction(reduction);
  const each = asOutput(losses);
  const graph = graphFor(each);
  return graph.nameScope(options.name ?? 'weighted_loss', () => {
    const exact = cast(each, 'float32');
    const factors = cast(typeof weights === 'number' ? asOutput(weights, 'float32') : weights, 'float32');
    checkWeights(factors, each);
    const reduced = cast(reduce(exact, factors, reduction, weights), each.dtype);
    const loss = graph.op('Identity', [reduced], {}, { name: 'value' }).output();
    if (collection !== null) graph.addToCollection(collection, loss);
    return loss;
  });
}

function reduce(losses: Output, factors: Output, reduction: Reduction, weights: Operand): Output {
  const weighted = mul(losses, factors);
  switch (reduction) {
    case 'none':
      return weighted;
    case 'sum':
      return sum(weighted);
    case 'mean':
      return divNoNan(sum(weighted), sum(mul(raw.onesLike(losses), factors)));
    case 'sumOverBatchSize':
      return divNoNan(sum(weighted), count(losses));
    case 'sumByNonzeroWeights': {
      const isOne = typeof weights === 'number' && weights !== 0;
      const present = cast(notEqual(factors, 0), 'float32');
      return divNoNan(sum(weighted), isOne ? count(losses) : sum(mul(raw.onesLike(losses), present)));
    }
  }
}

const count = (losses: Output): Output => cast(size(losses), 'float32');

export function checkReduction(reduction: string): void {
  if ((REDUCTIONS as readonly string[]).includes(reduction)) return;
  throw invalid(`Unknown reduction '${reduction}'; use one of ${REDUCTIONS.join(', ')}`);
}

/** Weights must be a scalar, or have the losses' rank with sizes equal to the losses' or 1. */
function checkWeights(weights: Output, losses: Output): void {
  const [own, theirs] = [weights.shape, losses.shape];
  if (own === null || theirs === null || own.length === 0) return;
  const fits =
    own.length === theirs.length && own.every((dim, i) => dim === 1 || compatible(dim, theirs[i] ?? null));
  if (fits) return;
  throw invalid(
    `Weights of shape ${formatShape(own)} do not broadcast to losses of shape ${formatShape(theirs)}`,
    {
      op: losses.op.name,
      hint: 'Pass a scalar, or a tensor of the same rank as the losses with equal sizes or size 1.',
    },
  );
}

const compatible = (a: number | null, b: number | null): boolean => a === null || b === null || a === b;

/** Labels and predictions must have the same static shape. */
export function checkSameShape(loss: string, labels: Output, predictions: Output): void {
  if (shapesAgree(labels.shape, predictions.shape)) return;
  throw invalid(
    `${loss}: labels have shape ${formatShape(labels.shape)}, predictions ${formatShape(predictions.shape)}`,
    { op: predictions.op.name, hint: `Labels come from ${labels}, predictions from ${predictions}.` },
  );
}

export const shapesAgree = (a: PartialShape, b: PartialShape): boolean =>
  a === null || b === null || (a.length === b.length && a.every((dim, i) => compatible(dim, b[i] ?? null)));

/** Removes or adds a last axis of size 1 so that `x` has rank `rank`; returns `x` if that is not possible. */
export function toRank(x: Output, rank: number | null): Output {
  if (x.rank === null || rank === null) return x;
  if (x.rank === rank + 1 && (x.shape?.at(-1) ?? 1) === 1) return squeeze(x, [-1]);
  if (x.rank > 0 && x.rank === rank - 1) return expandDims(x, -1);
  return x;
}
