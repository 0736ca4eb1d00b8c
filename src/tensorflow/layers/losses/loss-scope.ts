/** The common part of all losses: name scope, weights, reduction. */
import type { Output } from '../../graph/operation.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { namedOperands } from '../../ops/named-operands.js';
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

/** A loss of two operands; a `collection` of null means none. */
export const lossOperands = <A extends string, B extends string, O extends LossOptions>(
  first: A,
  second: B,
  apply: (first: Operand, second: Operand, options: O) => Output,
) => namedOperands<A, B, O>(first, second, apply, ['collection']);
