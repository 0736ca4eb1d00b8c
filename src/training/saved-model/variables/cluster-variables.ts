/** The variables of a cluster as the source of an export: each task streams its variables to the disk of this task. */
import type { Consistency } from '../../../distributed/checkpoint/format/consistency.js';
import { type SavedVariable, savedVariable } from '../../../distributed/checkpoint/format/saved-variable.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Server } from '../../train/task/server.js';
import { trainedVariables } from './trained-variables.js';
import type { VariableSource } from './variable-source.js';

export interface ClusterVariablesOptions {
  /** The graph that trains, if another graph is exported. Variables are matched by their names. */
  readonly trained?: Graph;
  readonly consistency?: Consistency;
  readonly onProgress?: (bytes: number) => void;
}

export function clusterVariables(server: Server, options: ClusterVariablesOptions = {}): VariableSource {
  const { trained, consistency, onProgress } = options;
  return {
    async write({ variables, directory, prefix, signal }) {
      const service = server.checkpoints;
      const held = trained ? trainedVariables(variables, trained) : variables;
      const byOwner = new Map<string, SavedVariable[]>();
      for (const { variable, key } of held) {
        const owner = service.ownerOf(variable.device);
        byOwner.set(owner, [...(byOwner.get(owner) ?? []), savedVariable(variable, key)]);
      }
      const inOrder = [...byOwner].sort(([a], [b]) => (a < b ? -1 : 1));
      await service.gatherer.gather({
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
