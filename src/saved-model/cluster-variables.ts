/** The variables of a cluster as the source of an export: each task that holds some streams them to this task's disk. */
import { type SavedVariable, savedVariable } from '../checkpoint/saved-variable.js';
import type { Server } from '../cluster/server.js';
import { invalid, ShoalError } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { planeOf } from '../train/checkpoint-plane.js';
import { namedVariables } from '../train/saver.js';
import type { NamedVariable, VariableSource } from './variable-source.js';

export interface ClusterVariablesOptions {
  /** The graph that trains, where the one that is exported is another. Variables are matched by their names. */
  readonly trained?: Graph | undefined;
  readonly consistency?: 'cut' | 'loose' | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

export function clusterVariables(server: Server, options: ClusterVariablesOptions = {}): VariableSource {
  const { trained, consistency, onProgress } = options;
  return {
    async write({ variables, directory, prefix, signal }) {
      const plane = planeOf(server);
      if (!plane) {
        throw invalid('This server takes no part in checkpoints, so nothing can be exported through it', {
          hint: 'Start it with Server.start of shoal/train.',
        });
      }
      const held = trained ? matched(variables, trained) : variables;
      const byOwner = new Map<string, SavedVariable[]>();
      for (const { variable, key } of held) {
        const owner = plane.ownerOf(variable.device);
        byOwner.set(owner, [...(byOwner.get(owner) ?? []), savedVariable(variable, key)]);
      }
      const inOrder = [...byOwner].sort(([a], [b]) => (a < b ? -1 : 1));
      await plane.gatherer.gather({
        variables: new Map(inOrder),
        directory,
        prefix,
        consistency,
        signal,
        onProgress,
      });
    },
  };
}

/** The variables of the graph that trains which have the values of these. */
function matched(wanted: readonly NamedVariable[], trained: Graph): NamedVariable[] {
  const keys = new Set(wanted.map(({ key }) => key));
  const found = namedVariables(trained, undefined).filter(({ key }) => keys.has(key));
  for (const { key } of found) keys.delete(key);
  if (keys.size === 0) return found;
  throw new ShoalError('SHOAL_NOT_FOUND', `The graph that trains has no variable ${[...keys].join(', ')}`, {
    hint: 'The graph for serving must use the names of the variables that are trained.',
  });
}
