/** What an optimizer minimizes: all losses of the graph together. */
import { invalid } from '../../errors/errors.js';
import { currentGraph, type Graph } from '../../graph/graph.js';
import type { Output } from '../../graph/operation.js';
import { addN } from '../../ops/math.js';
import { GraphKeys } from '../../variables/collections.js';

export const getLosses = (graph: Graph = currentGraph()): Output[] => graph.getCollection(GraphKeys.losses);

export const getRegularizationLosses = (graph: Graph = currentGraph()): Output[] =>
  graph.getCollection(GraphKeys.regularizationLosses);

/** Adds a loss of your own to what `getTotalLoss` sums up. */
export function addLoss(loss: Output, collection: string = GraphKeys.losses): void {
  loss.graph.addToCollection(collection, loss);
}

/** The sum of the penalties on weights; undefined when there are none. */
export function getRegularizationLoss(graph: Graph = currentGraph()): Output | undefined {
  const losses = getRegularizationLosses(graph);
  return losses.length === 0
    ? undefined
    : graph.asDefault(() => addN(losses, { name: 'total_regularization_loss' }));
}

export interface TotalLossOptions {
  readonly graph?: Graph | undefined;
  readonly addRegularizationLosses?: boolean | undefined;
  readonly name?: string | undefined;
}

/** The sum of the losses in the collection, and of the penalties on weights unless told otherwise. */
export function getTotalLoss(options: TotalLossOptions = {}): Output {
  const { graph = currentGraph(), addRegularizationLosses = true, name = 'total_loss' } = options;
  const losses = getLosses(graph);
  if (addRegularizationLosses) losses.push(...getRegularizationLosses(graph));
  if (losses.length === 0) {
    throw invalid('The graph has no losses to sum up', {
      hint: 'Functions of tf.losses add theirs; add one of your own with tf.losses.addLoss(loss).',
    });
  }
  const vector = losses.find((loss) => loss.rank !== null && loss.rank !== 0);
  if (vector) {
    throw invalid(`${vector} is among the losses, but is no scalar`, {
      hint: "A loss with reduction 'none' belongs in no collection: give it { collection: null }.",
    });
  }
  return graph.asDefault(() => addN(losses, { name }));
}
