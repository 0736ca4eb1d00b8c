/** The ops of a model: predictions, loss and metrics, for training or not. */
import type { Output } from '../../tensorflow/graph/operation.js';
import { getRegularizationLoss } from '../../tensorflow/layers/losses/total.js';
import { mean } from '../../tensorflow/layers/metrics/index.js';
import { identity, slice } from '../../tensorflow/ops/arrays.js';
import * as raw from '../../tensorflow/ops/generated/index.js';
import { add, cast } from '../../tensorflow/ops/math.js';
import { GraphKeys } from '../../tensorflow/variables/collections.js';
import type { StreamingMetric } from '../../training/train/evaluation/evaluate.js';
import type { Compiled } from './compile.js';

export interface ModelGraph {
  readonly predictions: readonly Output[];
  /** The loss of each output. */
  readonly losses: readonly Output[];
  /** The loss of the batch: the sum of all, with the penalties of the weights. */
  readonly loss: Output;
}

/** Adds the losses to predictions. */
export function modelParts(
  { outputs }: Compiled,
  predictions: readonly Output[],
  ys: readonly Output[],
): ModelGraph {
  const losses = outputs.map(({ loss }, i) => loss(ys[i] as Output, predictions[i] as Output).toOutput());
  const penalty = getRegularizationLoss((predictions[0] as Output).graph);
  const loss = [...losses, ...(penalty ? [penalty] : [])].reduce((sum, one) => add(sum, one));
  return { predictions, losses, loss };
}

/**
 * Builds predictions for training, and their loss. Every step fetches the loss, so it also runs the updates of moving
 * averages: those that `build` adds. The graph may have updates of earlier builds, which would update them twice.
 */
export function trainingParts(
  compiled: Compiled,
  ys: readonly Output[],
  build: () => readonly Output[],
): ModelGraph {
  const { graph } = ys[0] as Output;
  const updates = () => graph.getCollection<Output>(GraphKeys.updateOps);
  const earlier = new Set(updates());
  const predictions = build();
  const own = updates().filter((update) => !earlier.has(update));
  const parts = modelParts(compiled, predictions, ys);
  if (own.length === 0) return parts;
  return { ...parts, loss: graph.controlDependencies(own, () => identity(parts.loss)) };
}

/** The means over all examples: of the loss, of the losses of several outputs, and of the compiled metrics. */
export function metricsOf(
  { metrics, outputs }: Compiled,
  { loss, losses, predictions }: ModelGraph,
  ys: readonly Output[],
): Readonly<Record<string, StreamingMetric>> {
  const examples = cast(slice(raw.shape(ys[0] as Output), [0], [1]).reshape([]), 'float32');
  const means: Record<string, StreamingMetric> = { loss: mean(loss, { weights: examples }) };
  for (const [i, { name }] of outputs.entries()) {
    const prefix = outputs.length === 1 ? '' : `${name}_`;
    if (prefix !== '') means[`${prefix}loss`] = mean(losses[i] as Output, { weights: examples });
    for (const [metric, make] of Object.entries(metrics))
      means[`${prefix}${metric}`] = make(ys[i] as Output, predictions[i] as Output);
  }
  return means;
}
