/** Where a graph other than the one that trains is exported, its variables get the values of the trained ones by name. */
import { ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { namedVariables } from '../train/saver.js';
import type { NamedVariable } from './variable-source.js';

/** The variables of the graph that trains which have the values of these. */
export function trainedVariables(wanted: readonly NamedVariable[], trained: Graph): NamedVariable[] {
  const keys = new Set(wanted.map(({ key }) => key));
  const found = namedVariables(trained, undefined).filter(({ key }) => keys.has(key));
  for (const { key } of found) keys.delete(key);
  if (keys.size === 0) return found;
  throw new ShoalError('SHOAL_NOT_FOUND', `The graph that trains has no variable ${[...keys].join(', ')}`, {
    hint: 'The graph for serving must use the names of the variables that are trained.',
  });
}
