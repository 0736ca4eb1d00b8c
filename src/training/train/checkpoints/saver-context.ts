/**
 * What a saver works with in one session and directory: the checkpoints there, the variables by owner, and on a cluster the
 * tasks that may hold checkpoints. Without a cluster this process owns all variables.
 */
import { normalize, resolve } from 'node:path';
import { Checkpoints } from '../../../distributed/checkpoint/checkpoints.js';
import { type SavedVariable, savedVariable } from '../../../distributed/checkpoint/format/saved-variable.js';
import type { Retention } from '../../../distributed/checkpoint/maintenance/retention.js';
import { ShardService } from '../../../distributed/checkpoint/shard/shard-service.js';
import { SessionVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { report, sweepOwn } from '../../../distributed/store/disk/sweeping.js';
import type { Store } from '../../../distributed/store/store.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { PartitionedVariable } from '../../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { Server } from '../task/server.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { CheckpointHolders } from './checkpoint-holders.js';
import type { SaverOptions, VarList } from './saver-options.js';

export interface SaverContext {
  readonly checkpoints: Checkpoints;
  /** Undefined if all checkpoints are in one place. */
  readonly holders?: CheckpointHolders;
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  readonly namespace: string;
}

export interface SaverContextOptions
  extends Pick<SaverOptions, 'varList' | 'blobs' | 'namespace' | 'waitMs' | 'log' | 'job' | 'beforeRemoval'> {
  readonly directory: string;
  readonly store: Store;
  /** Whether it is on the disks of this training alone, not in a directory that several share. */
  readonly isOwnStore: boolean;
  readonly retention: Retention;
}

export const DEFAULT_WAIT_MS = 120_000;
/** The owner of all variables without a cluster. */
const LOCAL_OWNER = 'this process';

export const openContext = (session: TrainingRunner, options: SaverContextOptions): SaverContext =>
  session.server ? onCluster(session.server, session.graph, options) : inProcess(session, options);

const common = ({ store, retention, log, job, directory, beforeRemoval }: SaverContextOptions) => ({
  store,
  retention,
  beforeRemoval,
  log,
  job,
  directory: resolve(directory),
  now: Date.now,
});

function inProcess(session: TrainingRunner, options: SaverContextOptions): SaverContext {
  const { store, varList, blobs, log, namespace: given = '' } = options;
  const named = namedVariables(session.graph, varList);
  const { root } = store as DirectoryStore;
  // A shared directory has the shards of all tasks.
  const isAlone = options.isOwnStore;
  const isOwn = isAlone && blobs !== undefined;
  const namespace = isOwn ? given : '';
  report(isOwn ? sweepOwn(store) : store.sweep(), log);
  const variables = named.map(({ variable }) => variable);
  const access = new SessionVariables(session, variables);
  const service = new ShardService({ access, openStore: () => store });
  const checkpoints = new Checkpoints({
    ...common(options),
    namespace,
    owner: () => service,
    pauseControl: session.pauseControl,
    // One incarnation per process, to distinguish the files of earlier processes.
    chief: { task: '', incarnation: Math.floor(performance.timeOrigin) },
    isAlone,
    roots: [root],
  });
  const saved = named.map(({ variable, key }) => savedVariable(variable, key));
  return { checkpoints, namespace, variables: new Map(saved.length > 0 ? [[LOCAL_OWNER, saved]] : []) };
}

function onCluster(server: Server, graph: Graph, options: SaverContextOptions): SaverContext {
  const { store, varList, directory, waitMs = DEFAULT_WAIT_MS, log = () => {} } = options;
  const service = server.checkpoints;
  const isSpread = store.kind === 'peers';
  const namespace = isSpread ? (options.namespace ?? namespaceOf(directory)) : '';
  const holders = isSpread ? new CheckpointHolders({ server, store, waitMs, log }) : undefined;
  const own = new DirectoryStore(service.directory);
  const checkpoints = new Checkpoints({
    ...common(options),
    ...service.saving,
    waitForHolders: holders?.wait,
    // The incarnation may increase while the task runs.
    get chief() {
      return service.chief;
    },
    namespace,
    // Agents reject a replaced chief; a directory that all tasks share has no agent.
    confirmChief: isSpread ? async () => service.stepAlarm.throwIfRaised() : service.confirmChief,
    roots: [store instanceof DirectoryStore ? store.root : service.directory],
    own: isSpread ? own : undefined,
  });
  const variables = new Map<string, SavedVariable[]>();
  for (const { variable, key } of namedVariables(graph, varList)) {
    const owner = service.ownerOf(variable.device);
    const list = variables.get(owner) ?? [];
    list.push(savedVariable(variable, key));
    variables.set(owner, list);
  }
  const inOrder = [...variables].sort(([a], [b]) => (a < b ? -1 : 1));
  return { checkpoints, holders, namespace, variables: new Map(inOrder) };
}

/** A namespace for a directory that is the same on every machine: relative, without dots. */
export function namespaceOf(directory: string): string {
  const parts = normalize(directory)
    .split(/[\\/]+/)
    .filter((part) => part !== '' && part !== '.')
    .map((part) => (part === '..' ? 'up' : part.replace(/[^A-Za-z0-9._-]/g, '_')));
  return parts.length === 0 ? 'here' : parts.join('/');
}

/** The variables and their names in a checkpoint. Partitions share the name of the full variable. */
export function namedVariables(
  graph: Graph,
  list: VarList | undefined,
): { variable: Variable; key: string }[] {
  const spread = (item: Variable | PartitionedVariable | readonly Variable[], name?: string) =>
    (item instanceof PartitionedVariable ? item.parts : [item].flat()).map((variable) => ({
      variable,
      key: name ?? variable.sliceInfo?.fullName ?? variable.name,
    }));
  if (list === undefined) return globalVariables(graph).flatMap((variable) => spread(variable));
  if (Array.isArray(list)) return (list as readonly Variable[]).flatMap((item) => spread(item));
  return Object.entries(list as Record<string, Variable>).flatMap(([name, item]) => spread(item, name));
}
