/** The counter of training steps: that of a graph, or the one that a program has chosen for its training. */
import { invalid } from '../../base/errors/errors.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import { zeros } from '../ops/creation.js';
import { isInteger } from '../tensor/dtype.js';
import { GraphKeys } from './collections.js';
import { Variable } from './variable.js';

const NAME = 'global_step';

/** The variable of the collection; if it is empty, an integer variable of the name `global_step`. */
export function getGlobalStep(graph: Graph = currentGraph()): Variable<'int64'> | undefined {
  const [registered] = graph.getCollection<Variable<'int64'>>(GraphKeys.globalStep);
  if (registered) return registered;
  const byName = graph
    .getCollection<Variable>(GraphKeys.globalVariables)
    .find(({ name, dtype }) => name === NAME && isInteger(dtype));
  // An int32 counter is read and increased like an int64 one.
  return byName as Variable<'int64'> | undefined;
}

/** Training whose program may have chosen a counter. */
export interface Counted {
  readonly graph: Graph;
  /** The counter that the program has chosen; default: that of the graph. */
  readonly globalStep?: Variable | undefined;
}

/** The counter of a training. Checkpoints, recoveries, the status and the services all count by it. */
export function globalStepOf({ graph, globalStep }: Counted): Variable | undefined {
  return globalStep ?? getGlobalStep(graph);
}

/** Refuses a counter that cannot count. */
export function checkGlobalStep(globalStep: Variable): Variable {
  if (!isInteger(globalStep.dtype))
    throw invalid(`The global step must be an integer variable; it is ${globalStep}`, {
      hint: "Create it with tf.train.getOrCreateGlobalStep(), or with dtype: 'int64'.",
    });
  return globalStep;
}

export function createGlobalStep(graph: Graph = currentGraph()): Variable<'int64'> {
  if (getGlobalStep(graph)) throw invalid('The graph already has a global step');
  return graph.asDefault(() =>
    Variable.create<'int64'>({
      name: NAME,
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
