/** The ops of a model: predictions, loss and metrics, for training or not. */
import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { getRegularizationLoss } from '../../../tensorflow/layers/losses/total.js';
import { mean } from '../../../tensorflow/layers/metrics/index.js';
import { expandDims, identity, slice, squeeze } from '../../../tensorflow/ops/arrays.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { add, argMax, cast, divNoNan, mean as meanOf, mul, sum } from '../../../tensorflow/ops/math.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import type { StreamingMetric } from '../../../training/train/evaluation/evaluate.js';
import type { Built, Mask } from '../layer.js';
import type { Compiled } from './compile.js';

export interface LabelOutputs {
  /** Of each output. */
  readonly ys: readonly Output[];
  /** The weights of the examples, [batch], or of their steps, [batch, steps]. Default: 1. */
  readonly weights?: Output | undefined;
}

export interface ModelGraph {
  readonly predictions: readonly Output[];
  /** Which steps of each prediction count; undefined: all. */
  readonly masks: readonly Mask[];
  /** The loss of each output. */
  readonly losses: readonly Output[];
  /** The loss of the batch: the sum of all, with the penalties of the weights. */
  readonly loss: Output;
}

/** Adds the losses to predictions. */
export function modelParts(
  { outputs }: Compiled,
  { outputs: predictions, masks }: Built,
  labels: LabelOutputs,
): ModelGraph {
  const losses = outputs.map(({ name, loss }, i) => {
    const values = loss(labels.ys[i] as Output, predictions[i] as Output).toOutput();
    return reduced(name, values, masks[i], labels.weights);
  });
  const penalty = getRegularizationLoss((predictions[0] as Output).graph);
  const weighted = losses.map((one, i) => {
    const weight = outputs[i]?.weight ?? 1;
    return weight === 1 ? one : mul(one, weight);
  });
  const loss = [...weighted, ...(penalty ? [penalty] : [])].reduce((total, one) => add(total, one));
  return { predictions, masks, losses, loss };
}

/** The mean of the losses of examples, each times its weight; masked steps do not count. */
function reduced(output: string, values: Output, mask: Mask, weights: Output | undefined): Output {
  if (values.rank === 0) {
    if (!weights) return values;
    throw invalid(
      `The loss of ${output} is one number for the batch, in which examples cannot have weights`,
      {
        hint: 'Use a loss by name, or a function that returns the loss of each example, [batch].',
      },
    );
  }
  const own = weights && sameRank(weights, values);
  const present = mask && maskFor(mask, values);
  if (!present) return meanOf(own ? mul(values, own) : values);
  const factors = own ? mul(present, own) : present;
  return divNoNan(sum(mul(values, factors)), sum(mul(present, raw.onesLike(values))));
}

const maskFor = (mask: Output, values: Output): Output | undefined =>
  values.rank !== null && values.rank < 2 ? undefined : sameRank(cast(mask, values.dtype), values);

/** Weights with as many axes as the values: axes of size 1 are added or removed at the end. */
function sameRank(weights: Output, values: Output): Output {
  let fitted = cast(weights, values.dtype);
  if (fitted.rank === null || values.rank === null) return fitted;
  while ((fitted.rank ?? 0) > values.rank && fitted.shape?.at(-1) === 1) fitted = squeeze(fitted, [-1]);
  while ((fitted.rank ?? 0) < values.rank) fitted = expandDims(fitted, -1);
  return fitted;
}

/**
 * Builds predictions for training, and their loss. Every step fetches the loss, so it also runs the updates of moving
 * averages: those that `build` adds. The graph may have updates of earlier builds, which would update them twice.
 */
export function trainingParts(
  compiled: Compiled,
  labels: LabelOutputs,
  build: () => Built,
  weighted: (predictions: readonly Output[]) => LabelOutputs = () => labels,
): ModelGraph {
  const { graph } = labels.ys[0] as Output;
  const updates = () => graph.getCollection<Output>(GraphKeys.updateOps);
  const earlier = new Set(updates());
  const built = build();
  const own = updates().filter((update) => !earlier.has(update));
  const parts = modelParts(compiled, built, weighted(built.outputs));
  if (own.length === 0) return parts;
  return { ...parts, loss: graph.controlDependencies(own, () => identity(parts.loss)) };
}

/** The means over all examples: of the loss, of the losses of several outputs, and of the compiled metrics. */
export function metricsOf(
  { outputs }: Compiled,
  { loss, losses, predictions, masks }: ModelGraph,
  { ys, weights }: LabelOutputs,
): Readonly<Record<string, StreamingMetric>> {
  const examples = cast(slice(raw.shape(ys[0] as Output), [0], [1]).reshape([]), 'float32');
  const means: Record<string, StreamingMetric> = { loss: mean(loss, { weights: examples }) };
  for (const [i, { name, metrics }] of outputs.entries()) {
    const prefix = outputs.length === 1 ? '' : `${name}_`;
    if (prefix !== '') means[`${prefix}loss`] = mean(losses[i] as Output, { weights: examples });
    const p = predictions[i] as Output;
    const mask = masks[i] && p.rank !== 2 ? cast(masks[i] as Output, 'float32') : undefined;
    for (const [metric, { make, isWeighted }] of Object.entries(metrics)) {
      const factors = [mask, isWeighted ? weights : undefined].filter((one) => one !== undefined);
      const both =
        factors.length === 2
          ? mul(factors[0] as Output, sameRank(factors[1] as Output, factors[0] as Output))
          : factors[0];
      means[`${prefix}${metric}`] = make(ys[i] as Output, p, both);
    }
  }
  return means;
}

/** The weight of each example by its class. */
export function classWeights(y: Output, p: Output, table: Output): Output {
  const isOneHot = y.rank === p.rank && y.shape?.at(-1) !== 1;
  const classes = isOneHot
    ? argMax(y, -1)
    : cast(y.rank !== null && y.rank > 1 && y.shape?.at(-1) === 1 ? squeeze(y, [-1]) : y, 'int64');
  return raw.gatherV2(table, classes as Output<'int64'>, 0 as never) as Output;
}
