/** Ops that initialize variables, and report uninitialized ones. */
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { booleanMask, stack } from '../ops/arrays.js';
import { constant, group, noOp, zeros } from '../ops/creation.js';
import { logicalNot } from '../ops/math.js';
import { GraphKeys } from './collections.js';
import type { Variable } from './variable.js';
import { globalVariables, localVariables } from './variable-scope.js';

export function variablesInitializer(variables: readonly Variable[], name = 'init'): Operation {
  return variables.length === 0
    ? noOp({ name })
    : group(
        variables.map(({ initializer }) => initializer),
        { name },
      );
}

/** Initializes all global variables of the graph. */
export function globalVariablesInitializer(graph: Graph = currentGraph()): Operation {
  return graph.asDefault(() => variablesInitializer(globalVariables(graph)));
}

export function localVariablesInitializer(graph: Graph = currentGraph()): Operation {
  return graph.asDefault(() => variablesInitializer(localVariables(graph), 'local_init'));
}

export function tablesInitializer(graph: Graph = currentGraph()): Operation {
  const tables = graph.getCollection<Operation>(GraphKeys.tableInitializers);
  return graph.asDefault(() =>
    tables.length === 0 ? noOp({ name: 'init_all_tables' }) : group(tables, { name: 'init_all_tables' }),
  );
}

/** The names of the uninitialized variables, as a string vector. */
export function reportUninitializedVariables(
  variables: readonly Variable[] = [...globalVariables(), ...localVariables()],
): Output<'string'> {
  if (variables.length === 0) return zeros([0], 'string');
  const missing = logicalNot(stack(variables.map((variable) => variable.isInitialized())));
  return booleanMask(constant(variables.map(({ name }) => name)), missing) as Output<'string'>;
}
