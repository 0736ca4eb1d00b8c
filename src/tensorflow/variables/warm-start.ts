/**
 * TensorFlow 1's init_from_checkpoint: which variables start with the values of a checkpoint or a SavedModel instead of
 * those of their initializers. Nothing is read here; `train` reads the files when it initializes variables.
 */
import { invalid } from '../../base/errors/errors.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import { GraphKeys } from './collections.js';
import { PartitionedVariable } from './partitioned.js';
import { Variable } from './variable.js';
import { globalVariables } from './variable-scope.js';

/**
 * From names in the checkpoint to variables, or their names. A name that ends with a slash is a scope, and maps all
 * variables of the scope. `/` is the root.
 */
export type AssignmentMap = Readonly<Record<string, string | Variable | PartitionedVariable>>;

export interface WarmStart {
  readonly path: string;
  /** Variables of this graph by their names in the checkpoint; several per name are partitions, or share a value. */
  readonly variables: ReadonlyMap<string, readonly Variable[]>;
}

/** @param path a checkpoint (`dir/model.ckpt-500`), a directory of checkpoints, or the directory of a SavedModel. */
export function initFromCheckpoint(
  path: string,
  assignmentMap: AssignmentMap,
  { graph = currentGraph() }: { readonly graph?: Graph } = {},
): void {
  const variables = new Map<string, Variable[]>();
  for (const [from, to] of Object.entries(assignmentMap)) {
    for (const [name, variable] of pairs(graph, from, to)) {
      const known = variables.get(name);
      if (known) known.push(variable);
      else variables.set(name, [variable]);
    }
  }
  graph.addToCollection(GraphKeys.warmStarts, { path, variables } satisfies WarmStart);
}

/** A partition has the name of the whole variable. */
export const nameInCheckpoint = ({ sliceInfo, name }: Variable): string => sliceInfo?.fullName ?? name;

function pairs(graph: Graph, from: string, to: AssignmentMap[string]): [name: string, variable: Variable][] {
  if (to instanceof Variable) return [[from, to]];
  if (to instanceof PartitionedVariable) return to.parts.map((part) => [from, part]);
  const all = globalVariables(graph);
  if (!to.endsWith('/')) {
    const found = all.filter((variable) => nameInCheckpoint(variable) === to);
    if (found.length === 0) throw invalid(`initFromCheckpoint: the graph has no variable '${to}'`);
    if (from.endsWith('/')) throw invalid(`initFromCheckpoint: '${from}' is a scope, and '${to}' a variable`);
    return found.map((variable) => [from, variable]);
  }
  if (!from.endsWith('/')) throw invalid(`initFromCheckpoint: '${from}' is a variable, and '${to}' a scope`);
  const [source, target] = [from, to].map((scope) => (scope === '/' ? '' : scope)) as [string, string];
  const found = all.filter((variable) => nameInCheckpoint(variable).startsWith(target));
  if (found.length === 0)
    throw invalid(`initFromCheckpoint: the graph has no variables in the scope '${to}'`);
  return found.map((variable) => [source + nameInCheckpoint(variable).slice(target.length), variable]);
}
