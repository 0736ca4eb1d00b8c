/** The frame of a loss: its name scope, its weights, its reduction. */
import type { Output } from '../../graph/operation.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { graphFor } from '../graph-for.js';
import { checkReduction, computeWeightedLoss, type LossOptions } from './weighted.js';

/** The losses of each element made under a name of their own, then weighted and summed up. */
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
