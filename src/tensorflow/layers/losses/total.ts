/** The total loss of a graph, which an optimizer minimizes. */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { currentGraph, type Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { addN } from '../../ops/math.js';
import { GraphKeys } from '../../variables/collections.js';

export const getLosses = (graph: Graph = currentGraph()): Output[] => graph.getCollection(GraphKeys.losses);

export const getRegularizationLosses = (graph: Graph = currentGraph()): Output[] =>
  graph.getCollection(GraphKeys.regularizationLosses);

/** Adds a loss to the collection that `getTotalLoss` sums. */
export function addLoss(loss: Output, collection: string = GraphKeys.losses): void {
  loss.graph.addToCollection(collection, loss);
}

/** The sum of the weight penalties; undefined if there are none. */
export function getRegularizationLoss(graph: Graph = currentGraph()): Output | undefined {
  const losses = getRegularizationLosses(graph);
  return losses.length === 0
    ? undefined
    : graph.asDefault(() => addN(losses, { name: 'total_regularization_loss' }));
}

export interface TotalLossOptions {
  /** The graph of the losses; default: the current graph. */
  readonly graph?: Graph;
  /** Whether to add the weight penalties; default: true. */
  readonly addRegularizationLosses?: boolean;
  /** The name of the sum; default: `total_loss`. */
  readonly name?: string;
}

/** The sum of the losses in the collection and of the weight penalties. */
export function getTotalLoss(given: OrNull<TotalLossOptions> = {}): Output {
  const options = withoutNull<TotalLossOptions>(given);
  const { graph = currentGraph(), addRegularizationLosses = true, name = 'total_loss' } = options;
  const losses = getLosses(graph);
  if (addRegularizationLosses) losses.push(...getRegularizationLosses(graph));
  if (losses.length === 0) {
    throw invalid('The graph has no losses', {
      hint: 'Use the functions of tf.losses, or add a custom loss with tf.losses.addLoss(loss).',
    });
  }
  const vector = losses.find((loss) => loss.rank !== null && loss.rank !== 0);
  if (vector) {
    throw invalid(`${vector} is in the collection of losses but is not a scalar`, {
      hint: "A loss with reduction 'none' belongs in no collection: give it { collection: null }.",
    });
  }
  return graph.asDefault(() => addN(losses, { name }));
}
