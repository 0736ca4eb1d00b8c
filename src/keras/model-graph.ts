/** The ops of a model: predictions, loss and metrics, for training or not. */
import type { Output } from '../graph/operation.js';
import { getRegularizationLoss } from '../layers/losses/total.js';
import { mean } from '../layers/metrics/index.js';
import { identity, slice } from '../ops/arrays.js';
import * as raw from '../ops/generated/index.js';
import { add, cast } from '../ops/math.js';
import type { StreamingMetric } from '../train/evaluation/evaluate.js';
import { GraphKeys } from '../variables/collections.js';
import type { Compiled } from './compile.js';

export interface ModelParts {
  readonly prediction: Output;
  /** The loss of the batch, with the penalties of the weights. */
  readonly loss: Output;
}

/** Adds the loss to a prediction. */
export function modelParts({ loss }: Compiled, prediction: Output, y: Output): ModelParts {
  const own = loss(y, prediction).toOutput();
  const penalty = getRegularizationLoss(prediction.graph);
  return { prediction, loss: penalty ? add(own, penalty) : own };
}

/**
 * Builds a prediction for training, and its loss. Every step fetches the loss, so it also runs the updates of moving
 * averages: those that `build` adds. The graph may have updates of earlier builds, which would update them twice.
 */
export function trainingParts(compiled: Compiled, y: Output, build: () => Output): ModelParts {
  const { graph } = y;
  const updates = () => graph.getCollection<Output>(GraphKeys.updateOps);
  const earlier = new Set(updates());
  const prediction = build();
  const own = updates().filter((update) => !earlier.has(update));
  const { loss } = modelParts(compiled, prediction, y);
  return {
    prediction,
    loss: own.length === 0 ? loss : graph.controlDependencies(own, () => identity(loss)),
  };
}

/** The means over all examples: of the loss, and of the compiled metrics. */
export function metricsOf(
  { metrics }: Compiled,
  { loss, prediction }: ModelParts,
  y: Output,
): Readonly<Record<string, StreamingMetric>> {
  const examples = cast(slice(raw.shape(y), [0], [1]).reshape([]), 'float32');
  return {
    loss: mean(loss, { weights: examples }),
    ...Object.fromEntries(Object.entries(metrics).map(([name, make]) => [name, make(y, prediction)])),
  };
}
