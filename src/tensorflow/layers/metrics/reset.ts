/** Resets all metrics of a graph. */
import { currentGraph, type Graph } from '../../graph/graph.js';
import type { Operation } from '../../graph/operation.js';
import { GraphKeys } from '../../variables/collections.js';
import { variablesInitializer } from '../../variables/initialize.js';
import type { Variable } from '../../variables/variable.js';

/** An op that resets the counters of all metrics of the graph to 0. */
export function resetMetrics(graph: Graph = currentGraph()): Operation {
  const counters = graph.getCollection<Variable>(GraphKeys.metricVariables);
  return graph.asDefault(() => variablesInitializer(counters, 'reset_metrics'));
}
