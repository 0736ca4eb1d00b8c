/** Matches the variables of an exported graph with those of the graph that trains, by name. */
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { namedVariables } from '../../train/checkpoints/saver.js';

/** A variable and the name of its tensor in the bundle; the parts of a partitioned variable share one. */
export interface NamedVariable {
  readonly variable: Variable;
  readonly key: string;
}

/** The variables of the training graph that have the same names. */
export function trainedVariables(needed: readonly NamedVariable[], trained: Graph): NamedVariable[] {
  const keys = new Set(needed.map(({ key }) => key));
  const found = namedVariables(trained, undefined).filter(({ key }) => keys.has(key));
  const shapes = new Map(needed.map(({ key, variable }) => [key, describe(variable)]));
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

/** Type and shape; of the complete variable if this is a part of a partitioned one. */
const describe = ({ dtype, sliceInfo, fullShape }: Variable): string =>
  `${dtype} ${formatShape(sliceInfo?.fullShape ?? fullShape)}`;
