/**
 * The ops that compute the loss: those whose outputs the gradients use, and what these need. Without gradients all ops
 * count. Initializers, optimizers, and savers are not among them.
 */
import type { ModelNode } from './model-graph.js';

const isGradient = (name: string): boolean => /^gradients(_\d+)?\//.test(name);

export function forwardOps(nodes: readonly ModelNode[]): ReadonlySet<string> {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const pending = nodes
    .filter(({ name }) => isGradient(name))
    .flatMap(({ inputs }) => inputs.map(({ op }) => op))
    .filter((name) => !isGradient(name));
  if (pending.length === 0) return new Set(byName.keys());
  const found = new Set(pending);
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    for (const { op } of byName.get(name)?.inputs ?? []) {
      if (found.has(op) || isGradient(op)) continue;
      found.add(op);
      pending.push(op);
    }
  }
  return found;
}
