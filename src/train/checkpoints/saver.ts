/**
 * TensorFlow 1's Saver. In one process it writes a directory that TensorFlow reads. On a cluster each ps writes its own
 * shard to its own disk and to another one; nothing but metadata passes through here.
 *
 * Shards follow the tasks that hold the variables, so `sharded` changes nothing: it is taken for the sake of programs
 * that have it.
 */

import { basename, dirname, join, normalize, resolve } from 'node:path';
import type { Survey } from '../../checkpoint/catalog.js';
import { Checkpoints, type WhenBusy } from '../../checkpoint/checkpoints.js';
import { type ConsistencyOption, consistencyOf } from '../../checkpoint/consistency.js';
import type { Manifest } from '../../checkpoint/manifest.js';
import type { RestoreReport } from '../../checkpoint/restore.js';
import type { SaveProgress } from '../../checkpoint/save.js';
import { type SavedVariable, savedVariable } from '../../checkpoint/saved-variable.js';
import { ShardService } from '../../checkpoint/shard-service.js';
import { pushCheckpoint } from '../../checkpoint/transfer.js';
import { SessionVariables } from '../../checkpoint/variable-access.js';
import { invalid, isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import type { Graph } from '../../graph/graph.js';
import { DirectoryStore, openFileStore } from '../../store/disk/directory-store.js';
import { report, sweepOwn } from '../../store/disk/sweeping.js';
import { getGlobalStep } from '../../variables/global-step.js';
import { MetaGraphs } from '../../variables/meta-graph.js';
import { PartitionedVariable } from '../../variables/partitioned.js';
import type { Variable } from '../../variables/variable.js';
import { globalVariables } from '../../variables/variable-scope.js';
import type { SaverLike, TrainingRunner } from '../recovery/training-runner.js';
import { CheckpointHolders } from './checkpoint-holders.js';
import { checkpointServiceOf } from './checkpoint-service.js';
import { checkpointInDirectory, restoreFromDirectory } from './directory-checkpoint.js';

export type VarList =
  | readonly (Variable | PartitionedVariable)[]
  | Readonly<Record<string, Variable | PartitionedVariable | readonly Variable[]>>;

export interface SaverOptions {
  /** What is saved and restored: a list, or by the names in the checkpoint. All global variables unless told. */
  readonly varList?: VarList | undefined;
  /** The newest that stay; 0 keeps all. 5 unless told. */
  readonly maxToKeep?: number | undefined;
  readonly keepCheckpointEveryNHours?: number | undefined;
  readonly sharded?: boolean | undefined;
  /** `consistent` (default): workers pause, all values are of one moment. `relaxed`: as in TensorFlow, without a pause. */
  readonly consistency?: ConsistencyOption | undefined;
  /** How long workers may take to pause at the end of a step; default: derived from the durations of recent steps. */
  readonly pauseTimeoutSecs?: number | undefined;
  /** Where checkpoints are kept: `peers:` (default), or `file:` and a directory that all tasks see. */
  readonly store?: string | undefined;
  /** In one process, where `peers:` keeps them. Default: the directory that is saved to. */
  readonly blobs?: string | undefined;
  /** The name of the job among the blobs. Default: made of the directory on a cluster, none in one process. */
  readonly namespace?: string | undefined;
  /** The job that saves: it is written into every checkpoint, and one of another job is not restored. */
  readonly job?: string | undefined;
  /**
   * How long a restore waits for tasks that are away: for all of them, as long as it is not known which checkpoint is the
   * newest, and for those that hold the newest. Default: 120,000.
   */
  readonly waitMs?: number | undefined;
  /** Whether variables that a checkpoint does not have are an error. */
  readonly strict?: boolean | undefined;
  readonly writeMetaGraph?: boolean | undefined;
  /** A save that is asked for while one runs waits for it, or is left out. */
  readonly whenBusy?: WhenBusy | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly onProgress?: ((progress: SaveProgress) => void) | undefined;
  /** The state of the input that belongs to a checkpoint; asked for while the workers rest. The session's unless told. */
  readonly input?: (() => unknown) | undefined;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface RestoreOptions extends CallOptions {
  /** Variables that have no value: the tasks that hold them are restored after all others. */
  readonly missing?: readonly Variable[] | undefined;
}

export interface SaveOptions extends CallOptions {
  /** Its number is put behind the path; the step in the graph at the moment of the cut unless told. */
  readonly globalStep?: number | undefined;
  /** See `SaverLike.save`. */
  readonly mayHide?: boolean | undefined;
}

interface Home {
  readonly checkpoints: Checkpoints;
  /** None where all checkpoints are in one place. */
  readonly holders?: CheckpointHolders | undefined;
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  readonly namespace: string;
}

const DEFAULTS = { maxToKeep: 5, store: 'peers:', waitMs: 120_000 } as const;
/** The owner of all variables where there is no cluster. */
const ALONE = 'this process';

export class Saver implements SaverLike {
  readonly #options: SaverOptions;
  readonly #homes = new WeakMap<object, Map<string, Home>>();
  readonly #metaGraphs = new MetaGraphs();
  #last: readonly string[] = [];
  #pinned: ReadonlySet<string> = new Set();

  constructor(options: SaverOptions = {}) {
    const { maxToKeep = DEFAULTS.maxToKeep } = options;
    if (!Number.isInteger(maxToKeep) || maxToKeep < 0)
      throw invalid(`maxToKeep must be a whole number from 0; it is ${maxToKeep}`);
    this.#options = options;
  }

  /** The paths of those that are kept, oldest first, as far as this saver has seen. */
  get lastCheckpoints(): readonly string[] {
    return this.#last;
  }

  /** Saves to `path-STEP`; resolves with that path when the checkpoint is committed. */
  async save(session: TrainingRunner, path: string, options: SaveOptions = {}): Promise<string> {
    const { signal, globalStep, mayHide } = options;
    const { writeMetaGraph = true, whenBusy = 'queue' } = this.#options;
    const { checkpoints, variables } = this.#home(session, dirname(path));
    if (variables.size === 0) throw invalid('There is no variable to be saved in this graph');
    const { input: kept } = session;
    const { onProgress, pauseTimeoutSecs, input = kept && (() => kept.cut()) } = this.#options;
    const outcome = await checkpoints.save(
      {
        variables,
        basename: basename(path),
        step: () => (globalStep === undefined ? readStep(session, signal) : Promise.resolve(globalStep)),
        consistency: consistencyOf(this.#options.consistency),
        mayHide,
        ...(writeMetaGraph ? { meta: () => this.#metaGraphs.bytes(session.graph) } : {}),
        signal,
        onProgress,
        input,
        parkMs: pauseTimeoutSecs === undefined ? undefined : pauseTimeoutSecs * 1000,
      },
      whenBusy,
    );
    if (outcome === undefined)
      throw new ShoalError('SHOAL_ABORTED', 'A checkpoint is being saved; this one was left out');
    if (outcome.shortfall > 0) {
      this.#options.log?.(
        `${outcome.manifest.prefix} has ${outcome.shortfall} replicas too few: no other task could take them`,
      );
    }
    this.#remember(checkpoints.kept ?? (await checkpoints.list()), dirname(path));
    return join(dirname(path), outcome.manifest.prefix);
  }

  /** Gives the variables their values from the checkpoint at `path`, or from a directory's newest. */
  async restore(session: TrainingRunner, path: string, options: RestoreOptions = {}): Promise<RestoreReport> {
    const { signal } = options;
    const { strict } = this.#options;
    const { checkpoints, holders, variables, namespace } = this.#home(session, dirname(path));
    holders?.begin();
    const { manifests, unreadable } = await checkpoints.survey({ signal });
    const wanted = manifests.filter(({ prefix }) => prefix === basename(path));
    const last = ownersOf(session, options.missing);
    const request = { variables, strict, signal, last, readsInput: this.#readsInput(session) };
    if (wanted[0]) return checkpoints.restore(wanted[0], request);
    // TensorFlow's own, on this disk: it goes through the store, where every owner reads its part.
    const store = this.#storeOf(session, dirname(path));
    const imported = await pushCheckpoint(store, namespace, path, { signal }).catch((error: unknown) => {
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
      throw new ShoalError('SHOAL_NOT_FOUND', `There is no checkpoint ${path}`, {
        cause: error,
        hint: [
          manifests.length > 0
            ? `There are ${manifests.map(({ prefix }) => prefix).join(', ')}.`
            : 'There is none that can be read in its directory.',
          ...unreadable.map(({ error }) => error.message),
        ].join(' '),
      });
    });
    try {
      return await checkpoints.restore(imported, request);
    } finally {
      await checkpoints.remove(imported);
    }
  }

  /**
   * Restores the newest checkpoint that can be, passing over damaged ones; undefined when there is none at all. Where only
   * the directory has one, as after training with Python's TensorFlow, that one is imported and restored.
   */
  async restoreNewest(
    session: TrainingRunner,
    directory: string,
    options: RestoreOptions = {},
  ): Promise<RestoreReport | undefined> {
    const { checkpoints, variables, namespace } = this.#home(session, directory);
    const { strict, log, job } = this.#options;
    const { signal, missing } = options;
    const survey = await this.#surveyAll(session, directory, options);
    const found = await checkpointInDirectory(survey, { directory, job, log });
    const last = ownersOf(session, missing);
    const request = { variables, strict, signal, last, readsInput: this.#readsInput(session) };
    const parts = { checkpoints, store: this.#storeOf(session, directory), namespace, request };
    const report = await (found
      ? restoreFromDirectory(found, parts, { directory, job, log })
      : checkpoints.restoreNewest(request, survey));
    if (report)
      await checkpoints
        .updateView()
        .catch((error: unknown) => log?.(`${directory} could not be updated: ${messageOf(error)}`));
    return report;
  }

  /** The path of the newest committed checkpoint, wherever its bytes are. That none of them can be read is an error. */
  async latest(
    session: TrainingRunner,
    directory: string,
    options: CallOptions = {},
  ): Promise<string | undefined> {
    const { job, log } = this.#options;
    const survey = await this.#surveyAll(session, directory, options);
    const found = await checkpointInDirectory(survey, { directory, job, log });
    if (found) return found.path;
    const { manifests, unreadable } = survey;
    if (!manifests[0] && unreadable[0]) throw unreadable[0].error;
    return manifests[0] && join(directory, manifests[0].prefix);
  }

  /**
   * All checkpoints, the newest included. It may be on a disk whose task is still on its way, or does not answer: which one
   * is the newest, and that there is none, is known when all tasks have answered. Else a cluster that comes up slowly would
   * continue from an old checkpoint, or begin again from first values.
   */
  async #surveyAll(session: TrainingRunner, directory: string, { signal }: CallOptions): Promise<Survey> {
    const { checkpoints, holders } = this.#home(session, directory);
    holders?.begin();
    let survey = await checkpoints.survey({ signal });
    while (!checkpoints.hasNewest(survey) && holders?.isWorthWaiting(survey)) {
      await holders.everybody(survey, signal);
      survey = await checkpoints.survey({ signal });
    }
    if (checkpoints.hasNewest(survey)) return survey;
    const missing = holders?.missingFrom(survey) ?? [];
    if (missing.length === 0) checkpoints.settleNewest(survey);
    else if (survey.manifests.length + survey.unreadable.length === 0) throw this.#unheard(missing);
    else {
      this.#options.log?.(
        `NOT ALL TASKS ARE THERE: ${missing.join(', ')} may hold a newer checkpoint than those that were found; continuing without`,
      );
    }
    return survey;
  }

  #unheard(absent: readonly string[]): ShoalError {
    const { waitMs = DEFAULTS.waitMs } = this.#options;
    return new ShoalError(
      'SHOAL_TIMEOUT',
      `No checkpoint was found, and ${absent.join(', ')} did not come within ${waitMs} ms: it is not known whether there is one`,
      { hint: 'Start the missing tasks, or check their addresses, the network and the credentials.' },
    );
  }

  #readsInput({ input }: TrainingRunner): boolean {
    return input !== undefined || this.#options.input !== undefined;
  }

  /** Newest first. */
  list(session: TrainingRunner, directory: string): Promise<readonly Manifest[]> {
    return this.#home(session, directory).checkpoints.list();
  }

  /** Removes what is not to be kept, if no save has done so: for who finds that there is nothing to be saved. */
  async tidy(session: TrainingRunner, directory: string): Promise<void> {
    await this.#home(session, directory).checkpoints.tidy();
  }

  /** Checkpoints that stay whatever their age, by path or prefix. */
  async pin(session: TrainingRunner, paths: readonly string[]): Promise<void> {
    const pinned = new Set<string>();
    for (const path of paths) {
      const manifests = await this.list(session, dirname(path));
      for (const { prefix, attempt } of manifests) if (prefix === basename(path)) pinned.add(attempt);
    }
    this.#pinned = pinned;
  }

  #remember(manifests: readonly Manifest[], directory: string): void {
    this.#last = manifests.map(({ prefix }) => join(directory, prefix)).reverse();
  }

  #storeOf(session: TrainingRunner, directory: string) {
    const service = session.server && checkpointServiceOf(session.server);
    const { store = DEFAULTS.store, blobs = directory } = this.#options;
    if (service) return service.store(store);
    return store === 'peers:' ? new DirectoryStore(blobs) : openFileStore(store);
  }

  /** The checkpoints of a directory through a session: found once, then kept with the session. */
  #home(session: TrainingRunner, directory: string): Home {
    const key = session.server ?? session;
    const homes = this.#homes.get(key) ?? new Map<string, Home>();
    this.#homes.set(key, homes);
    const known = homes.get(directory);
    if (known) return known;
    const home = this.#makeHome(session, directory);
    homes.set(directory, home);
    return home;
  }

  #makeHome(session: TrainingRunner, directory: string): Home {
    const { server, graph } = session;
    const named = namedVariables(graph, this.#options.varList);
    const saver = this;
    const { maxToKeep = DEFAULTS.maxToKeep, keepCheckpointEveryNHours, log, job } = this.#options;
    const retention = {
      keep: maxToKeep,
      everyHours: keepCheckpointEveryNHours,
      get pinned() {
        return saver.#pinned;
      },
    };
    const store = this.#storeOf(session, directory);
    const common = { store, retention, now: Date.now, log, job, directory: resolve(directory) };
    if (!server) {
      const { root } = store as DirectoryStore;
      const { store: url = DEFAULTS.store, blobs } = this.#options;
      const isOwn = url === DEFAULTS.store && blobs !== undefined;
      const namespace = isOwn ? (this.#options.namespace ?? '') : '';
      report(isOwn ? sweepOwn(store) : store.sweep(), log);
      const access = new SessionVariables(
        session,
        named.map(({ variable }) => variable),
      );
      const service = new ShardService({ access, openStore: () => store });
      const checkpoints = new Checkpoints({
        ...common,
        namespace,
        owner: () => service,
        // A life is a process: what an earlier one left is told from what this one is at.
        chief: { task: '', incarnation: Math.floor(performance.timeOrigin) },
        roots: [root],
      });
      const saved = named.map(({ variable, key }) => savedVariable(variable, key));
      return { checkpoints, namespace, variables: new Map(saved.length > 0 ? [[ALONE, saved]] : []) };
    }
    const service = checkpointServiceOf(server);
    if (!service) {
      throw invalid('This server takes no part in checkpoints', {
        hint: 'Start it with Server.start of shoal/train, or attach a CheckpointService.',
      });
    }
    const isSpread = store.kind === 'peers';
    const namespace = isSpread ? (this.#options.namespace ?? namespaceOf(directory)) : '';
    const { waitMs = DEFAULTS.waitMs } = this.#options;
    const holders = isSpread
      ? new CheckpointHolders({ server, store, waitMs, log: log ?? (() => {}) })
      : undefined;
    const checkpoints = new Checkpoints({
      ...common,
      ...service.saving,
      waitForHolders: holders?.wait,
      // It may take a higher incarnation while it runs.
      get chief() {
        return service.chief;
      },
      namespace,
      // The agents guard the disks of the tasks; a directory that all tasks share has nobody to guard it.
      ...(store.kind === 'peers' ? {} : { confirmChief: service.confirmChief }),
      roots: [store instanceof DirectoryStore ? store.root : service.directory],
    });
    const variables = new Map<string, SavedVariable[]>();
    for (const { variable, key } of named) {
      const owner = service.ownerOf(variable.device);
      const list = variables.get(owner) ?? [];
      list.push(savedVariable(variable, key));
      variables.set(owner, list);
    }
    const inOrder = [...variables].sort(([a], [b]) => (a < b ? -1 : 1));
    return { checkpoints, holders, namespace, variables: new Map(inOrder) };
  }
}

/** A name for a directory that is the same on every machine: relative, without dots. */
export function namespaceOf(directory: string): string {
  const parts = normalize(directory)
    .split(/[\\/]+/)
    .filter((part) => part !== '' && part !== '.')
    .map((part) => (part === '..' ? 'up' : part.replace(/[^A-Za-z0-9._-]/g, '_')));
  return parts.length === 0 ? 'here' : parts.join('/');
}

async function readStep(session: TrainingRunner, signal: AbortSignal | undefined): Promise<number> {
  const globalStep = getGlobalStep(session.graph);
  if (!globalStep) return 0;
  return (
    await session.run(globalStep.toOutput(), { timeoutMs: 30_000, ...(signal ? { signal } : {}) })
  ).number();
}

/** The variables and the names that they have in a checkpoint; parts share that of their whole. */
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

/**
 * Who sees values in the variables of a task that came back empty may begin to train: such tasks are restored last, when
 * the others are back at the checkpoint.
 */
function ownersOf(
  { server }: TrainingRunner,
  missing: readonly Variable[] | undefined,
): ReadonlySet<string> | undefined {
  const service = server && checkpointServiceOf(server);
  if (!service || !missing) return undefined;
  return new Set(missing.map(({ device }) => service.ownerOf(device)));
}
