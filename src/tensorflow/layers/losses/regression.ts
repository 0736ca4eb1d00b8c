/** Regression losses. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../graph/operation.js';
import { abs, add, cast, minimum, mul, square, squaredDifference, sub } from '../../ops/math.js';
import { lossOperands, lossScope } from './loss-scope.js';
import { checkSameShape, type LossOptions } from './weighted.js';

type Rule = (labels: Output, predictions: Output) => Output;

const regression = (title: string, scope: string, rule: Rule) =>
  lossOperands('labels', 'predictions', (labels, predictions, options: LossOptions) =>
    lossScope(scope, predictions, options, (prediction) => {
      const p = cast(prediction, 'float32');
      const y = cast(labels, 'float32');
      checkSameShape(title, y, p);
      return rule(y, p);
    }),
  );

/** (prediction - label)² */
export const meanSquared = regression('meanSquared', 'mean_squared_error', (y, p) => squaredDifference(p, y));

/** |prediction - label| */
export const absoluteDifference = regression('absoluteDifference', 'absolute_difference', (y, p) =>
  abs(sub(p, y)),
);

export interface HuberOptions extends LossOptions {
  /** The error from which on the loss is linear. Default: 1. */
  readonly delta?: number;
}

/** Half the squared error up to `delta`, linear beyond. */
export const huber = lossOperands(
  'labels',
  'predictions',
  (labels, predictions, options: HuberOptions): Output => {
    const { delta = 1, ...rest } = options;
    if (!(delta > 0)) throw invalid(`The delta of a Huber loss must be above 0; got ${delta}`);
    const rule: Rule = (y, p) => {
      const error = abs(sub(p, y));
      const quadratic = minimum(error, delta);
      return add(mul(square(quadratic), 0.5), mul(sub(error, quadratic), delta));
    };
    return regression('huber', 'huber_loss', rule)(labels, predictions, rest);
  },
);
