/**
 * Area under the ROC or precision-recall curve, estimated from counts at fixed thresholds as in TensorFlow 1: same
 * thresholds, epsilons and summation methods.
 */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../graph/operation.js';
import { reshape, slice } from '../../ops/arrays.js';
import type { Operand } from '../../ops/build.js';
import { constant } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import {
  add,
  all,
  cast,
  div,
  divNoNan,
  greater,
  greaterEqual,
  lessEqual,
  log,
  logicalAnd,
  matMul,
  maximum,
  minimum,
  mul,
  sub,
  sum,
  where,
} from '../../ops/math.js';
import { graphFor } from '../graph-for.js';
import { aligned, broadcastWeights, type Metric, type MetricOptions, metric } from './metric.js';

export type Curve = 'ROC' | 'PR';
export type SummationMethod = 'trapezoidal' | 'carefulInterpolation' | 'minoring' | 'majoring';

const CURVES: readonly Curve[] = ['ROC', 'PR'];
const METHODS: readonly SummationMethod[] = ['trapezoidal', 'carefulInterpolation', 'minoring', 'majoring'];

export interface AucOptions extends MetricOptions {
  /** The curve; default: 'ROC'. */
  readonly curve?: Curve;
  /** The number of thresholds, evenly spaced over [0, 1]. Default: 200. */
  readonly numThresholds?: number;
  /** Explicit thresholds between 0 and 1; the end points are added. Default: `numThresholds` of them. */
  readonly thresholds?: readonly number[];
  /** How the area is computed; default: 'trapezoidal'. Use 'carefulInterpolation' for a precision-recall curve. */
  readonly summationMethod?: SummationMethod;
}

/** Moves the end thresholds just outside [0, 1], so that predictions of exactly 0 and 1 are counted. */
const END_MARGIN = 1e-7;
const EPSILON = 1e-6;

/** Counts by threshold, from the lowest to the highest. */
interface Counts {
  readonly tp: Output;
  readonly fp: Output;
  readonly fn: Output;
  readonly tn: Output;
}

/** Predictions are probabilities; labels are booleans, or 0 and 1. */
export function auc(labels: Operand, predictions: Operand, given: OrNull<AucOptions> = {}): Metric {
  const options = withoutNull<AucOptions>(given);
  const { curve = 'ROC', summationMethod = 'trapezoidal' } = options;
  if (!CURVES.includes(curve)) throw invalid(`Unknown curve '${curve}'; use one of ${CURVES.join(', ')}`);
  if (!METHODS.includes(summationMethod)) {
    throw invalid(`Unknown summation method '${summationMethod}'; use one of ${METHODS.join(', ')}`);
  }
  const thresholds = thresholdsOf(options);
  const batch = aligned('auc', labels, predictions, options.weights);
  return metric('auc', options.name, batch.predictions, (counters) => {
    const size = [thresholds.length];
    const tp = counters.add('true_positives', size);
    const fn = counters.add('false_negatives', size);
    const tn = counters.add('true_negatives', size);
    const fp = counters.add('false_positives', size);
    const p = probabilities(batch.predictions);
    const added = countBatch(cast(batch.labels, 'bool'), p, batch.weights, thresholds);
    return {
      additions: [
        [tp, added.tp],
        [fn, added.fn],
        [tn, added.tn],
        [fp, added.fp],
      ],
      value: (read) =>
        area({ tp: read(tp), fp: read(fp), fn: read(fn), tn: read(tn) }, size[0] as number, {
          curve,
          summationMethod,
        }),
    };
  });
}

function thresholdsOf({ thresholds, numThresholds = 200 }: AucOptions): number[] {
  if (thresholds === undefined && !(Number.isSafeInteger(numThresholds) && numThresholds >= 2)) {
    throw invalid(`numThresholds must be an integer of at least 2; got ${numThresholds}`);
  }
  const between = thresholds
    ? [...thresholds].sort((a, b) => a - b)
    : Array.from({ length: numThresholds - 2 }, (_, i) => (i + 1) / (numThresholds - 1));
  return [-END_MARGIN, ...between, 1 + END_MARGIN];
}

/** The predictions, after a check that they are between 0 and 1. */
function probabilities(predictions: Output): Output {
  const p = cast(predictions, 'float32');
  const isProbability = all(logicalAnd(greaterEqual(p, 0), lessEqual(p, 1)));
  const check = raw.assert(isProbability, ['auc: predictions must be between 0 and 1', p]);
  return graphFor(p).controlDependencies([check], () => raw.identity(p));
}

function countBatch(
  labels: Output,
  predictions: Output,
  weights: Output | undefined,
  thresholds: readonly number[],
): Counts {
  const ones = raw.onesLike(predictions);
  const factors = reshape(weights ? broadcastWeights(weights, predictions) : ones, [-1, 1]);
  const isTrue = cast(reshape(labels, [-1, 1]), 'float32');
  const trues = mul(isTrue, factors);
  const falses = mul(sub(1, isTrue), factors);
  // [thresholds, examples] times a column of weights gives one count per threshold.
  const limits = reshape(constant([...thresholds]), [-1, 1]);
  const above = cast(greater(reshape(predictions, [1, -1]), limits), 'float32');
  const below = sub(1, above);
  const counts = (flags: Output, column: Output): Output => reshape(matMul(flags, column), [-1]);
  return {
    tp: counts(above, trues),
    fp: counts(above, falses),
    fn: counts(below, trues),
    tn: counts(below, falses),
  };
}

function area(
  counts: Counts,
  size: number,
  { curve, summationMethod }: { curve: Curve; summationMethod: SummationMethod },
): Output {
  const lower = (x: Output): Output => slice(x, [0], [size - 1]);
  const upper = (x: Output): Output => slice(x, [1], [size - 1]);
  const { tp, fp, fn, tn } = counts;
  if (curve === 'PR' && summationMethod === 'carefulInterpolation') {
    return interpolatedArea(counts, lower, upper);
  }
  const recalled = div(add(tp, EPSILON), add(add(tp, fn), EPSILON));
  const [x, y] =
    curve === 'ROC'
      ? [div(fp, add(add(fp, tn), EPSILON)), recalled]
      : [recalled, div(add(tp, EPSILON), add(add(tp, fp), EPSILON))];
  const widths = sub(lower(x), upper(x));
  const heights =
    summationMethod === 'minoring'
      ? minimum(lower(y), upper(y))
      : summationMethod === 'majoring'
        ? maximum(lower(y), upper(y))
        : div(add(lower(y), upper(y)), 2);
  return sum(mul(widths, heights));
}

/**
 * The area under the precision-recall curve if true positives grow linearly between two thresholds (Davis and
 * Goadrich, 2006): precision is then (a + b·P) / P for P positive predictions.
 */
function interpolatedArea(
  { tp, fp, fn }: Counts,
  lower: (x: Output) => Output,
  upper: (x: Output) => Output,
): Output {
  const positives = add(tp, fp);
  const gained = sub(lower(tp), upper(tp));
  const slope = divNoNan(gained, maximum(sub(lower(positives), upper(positives)), 0));
  const intercept = sub(upper(tp), mul(slope, upper(positives)));
  const bothSome = logicalAnd(greater(lower(positives), 0), greater(upper(positives), 0));
  const ratio = where(
    bothSome,
    divNoNan(lower(positives), maximum(upper(positives), 0)),
    raw.onesLike(upper(positives)),
  );
  const increments = mul(slope, add(gained, mul(intercept, log(ratio))));
  return sum(divNoNan(increments, maximum(add(upper(tp), upper(fn)), 0)));
}
