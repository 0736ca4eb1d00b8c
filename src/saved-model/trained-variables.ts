/** Where a graph other than the one that trains is exported, its variables get the values of the trained ones by name. */
import { invalid, ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { formatShape } from '../tensor/shape.js';
import { namedVariables } from '../train/checkpoints/saver.js';
import type { Variable } from '../variables/variable.js';
import type { NamedVariable } from './variable-source.js';

/** The variables of the graph that trains which have the values of these. */
export function trainedVariables(wanted: readonly NamedVariable[], trained: Graph): NamedVariable[] {
  const keys = new Set(wanted.map(({ key }) => key));
  const found = namedVariables(trained, undefined).filter(({ key }) => keys.has(key));
  const shapes = new Map(wanted.map(({ key, variable }) => [key, describe(variable)]));
  for (const { key, variable } of found) {
    keys.delete(key);
    const [serving, own] = [shapes.get(key), describe(variable)];
    if (serving === own) continue;
    throw invalid(
      `The variable '${key}' is ${serving} in the graph for serving, but ${own} in the graph that trains`,
      {
        hint: 'The model must make the same variables whether it trains or not.',
      },
    );
  }
  if (keys.size === 0) return found;
  throw new ShoalError('SHOAL_NOT_FOUND', `The graph that trains has no variable ${[...keys].join(', ')}`, {
    hint: 'The graph for serving must use the names of the variables that are trained.',
  });
}

/** Of the whole, where it is one of several parts. */
const describe = ({ dtype, sliceInfo, fullShape }: Variable): string =>
  `${dtype} ${formatShape(sliceInfo?.fullShape ?? fullShape)}`;
