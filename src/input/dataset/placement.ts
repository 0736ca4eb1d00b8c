/**
 * Where input ops go: onto the CPU of the worker that builds the graph, whatever waits or stands around the
 * place where they are made. A replica device setter puts what holds state on a ps; the state of an input
 * pipeline (iterators, queues, readers, epoch counters) belongs to one worker alone.
 */
import { mergeDevices, resolveDevice } from '../../graph/device.js';
import { FunctionGraph } from '../../graph/function.js';
import { currentGraph } from '../../graph/graph.js';
import { inScope, scopeOf } from '../../graph/scope.js';

/** Runs `body` with its ops, and the variables that it makes, on the worker's CPU. */
export function onWorker<T>(body: () => T): T {
  const graph = currentGraph();
  // The body of a function runs where its caller is.
  if (graph instanceof FunctionGraph) return body();
  const scope = scopeOf(graph);
  const ordinary = resolveDevice(scope.devices, { type: 'NoOp', name: 'input', attrs: {} });
  const device = mergeDevices(ordinary, '/device:CPU:0');
  return inScope({ ...scope, devices: [device], colocation: undefined, controlInputs: [] }, body);
}
