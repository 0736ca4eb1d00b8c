/** Means over batches: of values, of correct predictions, of squared errors. */
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { size } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { cast, divNoNan, equal, mul, squaredDifference, sum } from '../../ops/math.js';
import { aligned, broadcastWeights, fitWeights, type Metric, type MetricOptions, metric } from './metric.js';

/** The weighted mean of all values so far; 0 before the first. */
export function mean(values: Operand, given: OrNull<MetricOptions> = {}): Metric {
  const options = withoutNull<MetricOptions>(given);
  return weightedMean('mean', options.name, asOutput(values), options.weights);
}

/** The fraction of predictions that equal their labels. */
export function accuracy(labels: Operand, predictions: Operand, given: OrNull<MetricOptions> = {}): Metric {
  const options = withoutNull<MetricOptions>(given);
  const batch = aligned('accuracy', labels, predictions, options.weights);
  const p = cast(batch.predictions, batch.labels.dtype);
  return weightedMean('accuracy', options.name, equal(batch.labels, p), batch.weights);
}

export function meanSquaredError(
  labels: Operand,
  predictions: Operand,
  given: OrNull<MetricOptions> = {},
): Metric {
  const options = withoutNull<MetricOptions>(given);
  const batch = aligned('meanSquaredError', labels, predictions, options.weights);
  const errors = squaredDifference(cast(batch.predictions, 'float32'), cast(batch.labels, 'float32'));
  return weightedMean('mean_squared_error', options.name, errors, batch.weights);
}

function weightedMean(
  defaultName: string,
  name: string | undefined,
  values: Output,
  weights: Operand | undefined,
): Metric {
  return metric(defaultName, name, values, (counters) => {
    const total = counters.add('total');
    const count = counters.add('count');
    const numbers = cast(values, 'float32');
    const factors = fitWeights(weights, numbers);
    return {
      additions: [
        [total, sum(factors ? mul(numbers, factors) : numbers)],
        [count, factors ? sum(broadcastWeights(factors, numbers)) : cast(size(numbers), 'float32')],
      ],
      value: (read) => divNoNan(read(total), read(count)),
    };
  });
}
