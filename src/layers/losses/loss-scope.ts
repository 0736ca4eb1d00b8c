/** The common part of all losses: name scope, weights, reduction. */
import type { Output } from '../../graph/operation.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { graphFor } from '../graph-for.js';
import { checkReduction, computeWeightedLoss, type LossOptions } from './weighted.js';

/** Builds the element losses in a name scope, then weights and reduces them. */
export function lossScope(
  name: string,
  predictions: Operand,
  options: LossOptions,
  losses: (predictions: Output) => Output,
): Output {
  checkReduction(options.reduction ?? 'none');
  const x = asOutput(predictions);
  return graphFor(x).nameScope(options.name ?? name, (prefix) =>
    computeWeightedLoss(losses(x), { ...options, name: prefix }),
  );
}
