/**
 * Places input ops on the CPU of the worker that builds the graph, independent of the surrounding scope. A replica
 * device setter puts stateful ops on a ps, but the state of an input pipeline (iterators, queues, readers, epoch
 * counters) belongs to one worker.
 */
import { mergeDevices, resolveDevice } from '../../../tensorflow/graph/device.js';
import { FunctionGraph } from '../../../tensorflow/graph/function.js';
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import { inScope, scopeOf } from '../../../tensorflow/graph/scope.js';

/** Runs `body` with its ops and variables placed on the worker's CPU. */
export function onWorker<T>(body: () => T): T {
  const graph = currentGraph();
  // The body of a function runs where its caller is.
  if (graph instanceof FunctionGraph) return body();
  const scope = scopeOf(graph);
  const ordinary = resolveDevice(scope.devices, { type: 'NoOp', name: 'input', attrs: {} });
  const device = mergeDevices(ordinary, '/device:CPU:0');
  return inScope({ ...scope, devices: [device], colocation: undefined, controlInputs: [] }, body);
}
