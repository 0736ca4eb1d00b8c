/**
 * Gives all global variables their initial values. Those that have a value belong to the training that ends with the
 * loss of the others: together they would be a state that never was.
 */
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Runner, RunOptions } from '../../../tensorflow/session/runner.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';

/** A worker may begin to train when all variables have values, so the missing ones are initialized last. */
export async function initializeInOrder(
  runner: Runner & { readonly graph: Graph },
  missing: readonly Variable[],
  options: RunOptions = {},
): Promise<void> {
  const others = globalVariables(runner.graph).filter((variable) => !missing.includes(variable));
  for (const variables of [others, missing])
    if (variables.length > 0)
      await runner.run(
        variables.map(({ initializer }) => initializer),
        options,
      );
}
