/** Inlines the body of a function into the current graph. */
import type { GraphFunction } from '../graph/function.js';
import { currentGraph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { functionsOfOp, rememberFunctions } from './control-flow.js';

/** Copies the body with `args` in place of its inputs, including captures; returns its results. */
export function inlineFunction(fn: GraphFunction, args: readonly Output[]): Output[] {
  const graph = currentGraph();
  const prefix = graph.uniqueName('inlined');
  const inputs = fn.bodyInputs.map(({ op }) => op.name);
  const def = fn.body.toGraphDef();
  const replaced = new Set(inputs);
  def.node = def.node.filter(({ name }) => !replaced.has(name));
  const { outputs } = graph.importGraphDef(def, {
    prefix,
    inputMap: Object.fromEntries(inputs.map((name, i) => [`${name}:0`, args[i] as Output])),
    returnOutputs: fn.bodyOutputs.map(({ name }) => name),
  });
  for (const op of fn.body.operations()) {
    const functions = functionsOfOp(op);
    if (functions) rememberFunctions(graph.operation(`${prefix}/${op.name}`), functions);
  }
  return outputs;
}
