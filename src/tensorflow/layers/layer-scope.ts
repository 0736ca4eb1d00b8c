/**
 * The variable scope of a layer. The default name is TensorFlow 1's (`dense`, `dense_1`, …). Numbering restarts at
 * every entry into the enclosing scope, so that a second pass with `reuse` finds the variables of the first.
 */
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { currentVariableScope, variableScope } from '../variables/variable-scope.js';
import { graphFor } from './graph-for.js';

export interface LayerScopeOptions {
  /** The name of the layer's scope. Default: the layer's kind, numbered. */
  readonly name?: string;
  /** Whether to reuse existing variables. Default: the setting of the enclosing scope. */
  readonly reuse?: boolean | 'auto';
}

/** The use count of each name, per entry into a variable scope (the graph is the key for its root scope). */
const taken = new WeakMap<object, Map<string, number>>();

/** Runs `body`, which builds a layer on `x`, with variables under the layer's name. */
export function layerScope<T>(x: Output, defaultName: string, options: LayerScopeOptions, body: () => T): T {
  const graph = graphFor(x);
  const name = takeName(graph, options.name ?? defaultName, options.name === undefined);
  const { reuse } = options;
  return graph.asDefault(() => variableScope(name, body, reuse === undefined ? {} : { reuse }));
}

/** The next free name of a scope in the current variable scope: TensorFlow's `variable_scope(None, defaultName)`. */
export const takeScopeName = (defaultName: string): string => takeName(currentGraph(), defaultName, true);

function takeName(graph: Graph, given: string, isDefault: boolean): string {
  const scope = currentVariableScope(graph);
  const owner: object = scope.prefix === '' ? graph : scope;
  let counts = taken.get(owner);
  if (!counts) {
    counts = new Map();
    taken.set(owner, counts);
  }
  const name = isDefault ? freeName(given, counts) : given;
  counts.set(name, (counts.get(name) ?? 0) + 1);
  return name;
}

function freeName(base: string, counts: ReadonlyMap<string, number>): string {
  if (!counts.has(base)) return base;
  let number = 1;
  while (counts.has(`${base}_${number}`)) number += 1;
  return `${base}_${number}`;
}
