/** Which variables an export has: those that its signatures and init ops read, with all parts of partitioned ones. */
import { invalid } from '../../../base/errors/errors.js';
import type { NodeDef } from '../../../base/proto/generated/graph_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import { namedVariables, type VarList } from '../../train/checkpoints/saver.js';
import type { NamedVariable } from '../variables/trained-variables.js';

export interface ChooseRequest {
  readonly graph: Graph;
  readonly nodes: ReadonlyMap<string, NodeDef>;
  /** What each signature needs. */
  readonly signatures: ReadonlyMap<string, ReadonlySet<string>>;
  /** What the init ops need. */
  readonly init: ReadonlySet<string>;
  readonly varList?: VarList;
}

export function chooseVariables({ graph, nodes, signatures, init, varList }: ChooseRequest): NamedVariable[] {
  const needed = new Set([...[...signatures.values()].flatMap((names) => [...names]), ...init]);
  const isNeeded = (variable: Variable): boolean => needed.has(variable.handle.op.name);
  const all = namedVariables(graph, varList);
  const wholes = new Set(all.filter(({ variable }) => isNeeded(variable)).map(({ key }) => key));
  const chosen = varList === undefined ? all.filter(({ key }) => wholes.has(key)) : all;
  const saved = new Set(chosen.map(({ variable }) => variable.handle.op.name));
  for (const [signature, names] of signatures) {
    for (const name of names) {
      if (nodes.get(name)?.op !== 'VarHandleOp' || saved.has(name) || init.has(name)) continue;
      const isGlobal = globalVariables(graph).some(({ handle }) => handle.op.name === name);
      throw invalid(`The signature '${signature}' reads the variable '${name}', which is not exported`, {
        op: name,
        hint: isGlobal
          ? 'Add it to varList.'
          : 'It is not a global variable: add it to varList, or assign its value in mainOp.',
      });
    }
  }
  return chosen;
}

/** The nodes of a variable that TensorFlow looks for when it loads a graph with its collections. */
export function nodesOfVariable({ variable }: NamedVariable): string[] {
  const { handle, initialValue, initializer } = variable;
  return [handle.op.name, initialValue.op.name, initializer.name, variable.toOutput().op.name];
}

export const isVariable = (item: unknown): item is Variable => item instanceof Variable;
