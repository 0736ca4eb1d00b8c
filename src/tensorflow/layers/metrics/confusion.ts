/** Precision and recall of binary predictions. */
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import type { Operand } from '../../ops/build.js';
import { add, cast, divNoNan, logicalAnd, logicalNot, mul, sum } from '../../ops/math.js';
import { aligned, type Metric, type MetricOptions, metric } from './metric.js';

/** The fraction of positive predictions that are correct; 0 without positive predictions. */
export function precision(labels: Operand, predictions: Operand, given: OrNull<MetricOptions> = {}): Metric {
  const options = withoutNull<MetricOptions>(given);
  return share('precision', 'false_positives', labels, predictions, options, (y, p) =>
    logicalAnd(logicalNot(y), p),
  );
}

/** The fraction of positive labels that are predicted; 0 without positive labels. */
export function recall(labels: Operand, predictions: Operand, given: OrNull<MetricOptions> = {}): Metric {
  const options = withoutNull<MetricOptions>(given);
  return share('recall', 'false_negatives', labels, predictions, options, (y, p) =>
    logicalAnd(y, logicalNot(p)),
  );
}

/** True positives / (true positives + false positives or negatives). */
function share(
  title: string,
  mistakes: string,
  labels: Operand,
  predictions: Operand,
  options: MetricOptions,
  isMistake: (labels: Output, predictions: Output) => Output,
): Metric {
  const batch = aligned(title, labels, predictions, options.weights);
  const y = cast(batch.labels, 'bool');
  const p = cast(batch.predictions, 'bool');
  return metric(title, options.name, p, (counters) => {
    const right = counters.add('true_positives/count');
    const wrong = counters.add(`${mistakes}/count`);
    const amount = (flags: Output): Output => {
      const ones = cast(flags, 'float32');
      return sum(batch.weights ? mul(ones, batch.weights) : ones);
    };
    return {
      additions: [
        [right, amount(logicalAnd(y, p))],
        [wrong, amount(isMistake(y, p))],
      ],
      value: (read) => divNoNan(read(right), add(read(right), read(wrong))),
    };
  });
}
