/**
 * The variable scope of a layer. A layer without a name takes TensorFlow 1's default (`dense`, `dense_1`, …),
 * counted afresh at every entry into the scope around it, so that a second pass through a scope with `reuse`
 * meets the variables of the first.
 */
import type { Output } from '../graph/operation.js';
import { currentVariableScope, variableScope } from '../variables/variable-scope.js';
import { graphFor } from './graph-for.js';

export interface LayerScopeOptions {
  /** The name of the layer's scope; a default with a number when left out. */
  readonly name?: string | undefined;
  /** Whether the layer's variables exist already; as the scope around it says when left out. */
  readonly reuse?: boolean | 'auto' | undefined;
}

/** How often each name was taken, for each entry into a variable scope (the graph stands for its root). */
const taken = new WeakMap<object, Map<string, number>>();

/** Runs `body`, which builds a layer on `x`, with variables under the layer's name. */
export function layerScope<T>(x: Output, defaultName: string, options: LayerScopeOptions, body: () => T): T {
  const graph = graphFor(x);
  const scope = currentVariableScope(graph);
  const owner: object = scope.prefix === '' ? graph : scope;
  let counts = taken.get(owner);
  if (!counts) {
    counts = new Map();
    taken.set(owner, counts);
  }
  const name = options.name ?? freeName(defaultName, counts);
  counts.set(name, (counts.get(name) ?? 0) + 1);
  const { reuse } = options;
  return graph.asDefault(() => variableScope(name, body, reuse === undefined ? {} : { reuse }));
}

function freeName(base: string, counts: ReadonlyMap<string, number>): string {
  if (!counts.has(base)) return base;
  let number = 1;
  while (counts.has(`${base}_${number}`)) number += 1;
  return `${base}_${number}`;
}
