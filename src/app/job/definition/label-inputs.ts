/**
 * Which inputs of a model look like labels. A feature meets the variables of the model on its own or with other
 * features; a label meets only what the model has computed from the features, in the loss or in a metric.
 */
import type { NodeDef } from '../../../base/proto/generated/graph_pb.js';
import { edgeOf, reach } from '../../../training/saved-model/graph/prune-graph.js';

/** The inputs by name, with the names of their nodes. */
export type InputNodes = ReadonlyMap<string, readonly string[]>;

/** The inputs that look like labels; none if `loss` needs a single input. `nodes` are in the order of creation. */
export function labelInputs(
  nodes: ReadonlyMap<string, NodeDef>,
  loss: string,
  inputs: InputNodes,
): readonly string[] {
  const inputOf = new Map([...inputs].flatMap(([name, own]) => own.map((node) => [node, name] as const)));
  const wanted = reach(nodes, [loss]);
  const sources = new Map<string, Sources>();
  for (const [name, node] of nodes) {
    if (!wanted.has(name)) continue;
    const before = node.input.flatMap((input) => sources.get(edgeOf(input).node) ?? []);
    const own = inputOf.get(name);
    sources.set(name, {
      inputs: new Set([...(own === undefined ? [] : [own]), ...before.flatMap((one) => [...one.inputs])]),
      usesVariable: node.op === 'VarHandleOp' || before.some((one) => one.usesVariable),
    });
  }
  const computed = [...sources.values()].filter((one) => one.usesVariable && one.inputs.size > 0);
  return [...inputs.keys()].filter((input) => {
    const withInput = computed.filter((one) => one.inputs.has(input));
    const without = computed.filter((one) => !one.inputs.has(input));
    return withInput.length > 0 && without.some((one) => withInput.every((other) => contains(other, one)));
  });
}

/** What a node is computed from. */
interface Sources {
  readonly inputs: ReadonlySet<string>;
  readonly usesVariable: boolean;
}

const contains = (all: Sources, some: Sources): boolean =>
  [...some.inputs].every((one) => all.inputs.has(one));
