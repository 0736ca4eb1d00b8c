/** The counter of training steps, one per graph. */
import { invalid } from '../errors/errors.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import { zeros } from '../ops/creation.js';
import { GraphKeys } from './collections.js';
import { Variable } from './variable.js';

export function getGlobalStep(graph: Graph = currentGraph()): Variable<'int64'> | undefined {
  return graph.getCollection<Variable<'int64'>>(GraphKeys.globalStep)[0];
}

export function createGlobalStep(graph: Graph = currentGraph()): Variable<'int64'> {
  if (getGlobalStep(graph)) throw invalid('The graph already has a global step');
  return graph.asDefault(() =>
    Variable.create<'int64'>({
      name: 'global_step',
      initialValue: () => zeros([], 'int64'),
      trainable: false,
      collections: [GraphKeys.globalVariables, GraphKeys.globalStep],
    }),
  );
}

/** The global step of the graph, created at the first call. */
export function getOrCreateGlobalStep(graph: Graph = currentGraph()): Variable<'int64'> {
  return getGlobalStep(graph) ?? createGlobalStep(graph);
}
