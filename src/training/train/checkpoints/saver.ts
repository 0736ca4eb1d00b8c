/**
 * TensorFlow 1's Saver. In one process it writes a directory that TensorFlow reads. On a cluster each ps writes its
 * shard to its own disk and to that of another task; only metadata passes through this task.
 *
 * Checkpoints always have one shard per task that holds variables. `sharded` is accepted for compatibility only.
 */

import { basename, dirname, join, normalize, resolve } from 'node:path';
import { describeError, invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { Checkpoints } from '../../../distributed/checkpoint/checkpoints.js';
import { checkGatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import { pushCheckpoint } from '../../../distributed/checkpoint/directory/transfer.js';
import { consistencyOf } from '../../../distributed/checkpoint/format/consistency.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { type SavedVariable, savedVariable } from '../../../distributed/checkpoint/format/saved-variable.js';
import type { RestoreReport, RestoreSelection } from '../../../distributed/checkpoint/protocol/restore.js';
import type { Survey } from '../../../distributed/checkpoint/reading/catalog.js';
import { ShardService } from '../../../distributed/checkpoint/shard/shard-service.js';
import { SessionVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import { report, sweepOwn } from '../../../distributed/store/disk/sweeping.js';
import type { Store } from '../../../distributed/store/store.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { MetaGraphs } from '../../../tensorflow/variables/meta-graph.js';
import { PartitionedVariable } from '../../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { Restored } from '../recovery/recovery-report.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { CheckpointHolders } from './checkpoint-holders.js';
import { checkpointInDirectory, restoreFromDirectory } from './directory-checkpoint.js';
import { readStep, restoring } from './guarded-step.js';
import type { RestoreOptions, SaveOptions, SaverOptions, VarList } from './saver-options.js';

export type { RestoreOptions, SaveOptions, SaverOptions, VarList } from './saver-options.js';

/** The checkpoints of a directory, as seen by one session. */
interface Context {
  readonly checkpoints: Checkpoints;
  /** Undefined if all checkpoints are in one place. */
  readonly holders?: CheckpointHolders;
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  readonly namespace: string;
}

const DEFAULTS = { maxToKeep: 5, store: 'peers:', waitMs: 120_000 } as const;
/** The owner of all variables without a cluster. */
const LOCAL_OWNER = 'this process';

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<SaverOptions> = {
  varList: true,
  maxToKeep: true,
  keepCheckpointEveryNHours: true,
  sharded: true,
  consistency: true,
  pauseTimeoutSecs: true,
  store: true,
  blobs: true,
  namespace: true,
  job: true,
  findEnd: true,
  waitMs: true,
  strict: true,
  writeMetaGraph: true,
  whenBusy: true,
  gather: true,
  log: true,
  onProgress: true,
  input: true,
};

export class Saver implements SaverLike {
  readonly #options: SaverOptions;
  readonly #contexts = new WeakMap<object, Map<string, Context>>();
  readonly #metaGraphs = new MetaGraphs();
  #last: readonly string[] = [];
  #pinned: ReadonlySet<string> = new Set();

  constructor(given: OrNull<SaverOptions> = {}) {
    const options = knownOptions(given, OPTIONS, 'a Saver');
    const { maxToKeep = DEFAULTS.maxToKeep } = options;
    if (!Number.isInteger(maxToKeep) || maxToKeep < 0)
      throw invalid(`maxToKeep must be an integer of at least 0; it is ${maxToKeep}`);
    checkGatherMode(options.gather, 'gather');
    this.#options = options;
  }

  /** The paths of the kept checkpoints, oldest first, as of the last save of this saver. */
  get lastCheckpoints(): readonly string[] {
    return this.#last;
  }

  /** Saves to `path-STEP`; resolves with that path when the checkpoint is committed. */
  async save(session: TrainingRunner, path: string, options: OrNull<SaveOptions> = {}): Promise<string> {
    const { signal, globalStep, mayHide, hold, attempts } = withoutNull<SaveOptions>(options);
    const { writeMetaGraph = true, whenBusy = 'queue' } = this.#options;
    session.server?.checkpoints.stepAlarm.throwIfRaised();
    const { checkpoints, variables } = this.#context(session, dirname(path));
    if (variables.size === 0) throw invalid('The graph has no variables to save');
    const { input: kept } = session;
    const { onProgress, pauseTimeoutSecs, input = kept && (() => kept.snapshot()) } = this.#options;
    const metrics = session.server?.metrics;
    const begun = performance.now();
    const saving = checkpoints.save(
      {
        variables,
        basename: basename(path),
        step: () => readStep(session, signal, globalStep ?? undefined),
        consistency: consistencyOf(this.#options.consistency),
        mayHide,
        hold,
        attempts,
        meta: writeMetaGraph ? () => this.#metaGraphs.bytes(session.graph) : undefined,
        signal,
        onProgress,
        input,
        pauseTimeoutMs: pauseTimeoutSecs === undefined ? undefined : pauseTimeoutSecs * 1000,
      },
      whenBusy,
    );
    const outcome = await saving.catch((error: unknown) => {
      metrics?.failedSaves.add();
      throw error;
    });
    if (outcome === undefined)
      throw new ShoalError('SHOAL_ABORTED', `${path} was not saved: another save is running`);
    const bytes = outcome.manifest.files.reduce((sum, { size }) => sum + size, 0);
    metrics?.saved(performance.now() - begun, bytes);
    if (outcome.shortfall > 0) {
      this.#options.log?.(
        `${outcome.manifest.prefix} lacks ${outcome.shortfall} replicas: no other task could store them`,
        'warn',
      );
    }
    this.#remember(checkpoints.kept ?? (await checkpoints.list()), dirname(path));
    (session.gathering ?? session.server?.checkpoints.gathering)?.saved(checkpoints, this.#options.gather);
    return join(dirname(path), outcome.manifest.prefix);
  }

  /** Restores the variables from the checkpoint at `path`. */
  async restore(session: TrainingRunner, path: string, options: RestoreOptions = {}): Promise<RestoreReport> {
    const { signal } = options;
    const { checkpoints, holders, variables, namespace } = this.#context(session, dirname(path));
    holders?.begin();
    const { manifests, unreadable } = await checkpoints.survey({ signal });
    const wanted = manifests.filter(({ prefix }) => prefix === basename(path));
    const request = this.#restoreRequest(session, variables, options);
    if (wanted[0]) return restoring(session, () => checkpoints.restore(wanted[0] as Manifest, request));
    // A checkpoint of TensorFlow on the local disk: imported into the store, from which every ps reads its part.
    const store = this.#storeOf(session, dirname(path));
    const imported = await pushCheckpoint(store, namespace, path, { signal }).catch((error: unknown) => {
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
      throw new ShoalError('SHOAL_NOT_FOUND', `There is no checkpoint ${path}`, {
        cause: error,
        hint: [
          manifests.length > 0
            ? `The directory contains ${manifests.map(({ prefix }) => prefix).join(', ')}.`
            : 'Its directory contains no readable checkpoint.',
          ...unreadable.map(({ error }) => error.message),
        ].join(' '),
      });
    });
    try {
      return await restoring(session, () => checkpoints.restore(imported, request));
    } finally {
      await checkpoints.remove(imported);
    }
  }

  /**
   * Restores the newest readable checkpoint and skips damaged ones; undefined if there is no checkpoint. A checkpoint
   * that only the directory has, as after training with Python's TensorFlow, is imported and restored.
   */
  async restoreNewest(
    session: TrainingRunner,
    directory: string,
    options: RestoreOptions = {},
  ): Promise<RestoreReport | undefined> {
    const { checkpoints, variables, namespace } = this.#context(session, directory);
    const { log, job } = this.#options;
    const survey = await this.#surveyAll(session, directory, options);
    const found = await checkpointInDirectory(survey, { directory, job, log });
    session.recoveryReport?.found();
    const request = this.#restoreRequest(session, variables, options);
    const parts = { checkpoints, store: this.#storeOf(session, directory), namespace, request };
    const report = await restoring(session, () =>
      found
        ? restoreFromDirectory(found, parts, { directory, job, log })
        : checkpoints.restoreNewest(request, survey),
    );
    if (!report) return undefined;
    session.gathering?.restored(checkpoints, this.#options.gather);
    session.recoveryReport?.restored({ ...report, ...restoredPart(session, variables, request) });
    const shown = checkpoints
      .updateView()
      .catch((error: unknown) =>
        log?.(`the checkpoint files in ${directory} could not be updated: ${describeError(error)}`, 'warn'),
      );
    // The workers of a cluster wait for the restore, and need no file of this directory.
    if (!session.server) await shown;
    return report;
  }

  /** The path of the newest committed checkpoint, wherever its bytes are. Fails if none of them is readable. */
  async latest(
    session: TrainingRunner,
    directory: string,
    options: Pick<RestoreOptions, 'signal'> = {},
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
   * All checkpoints, including the newest. It may be on the disk of a task that has not started yet, so the newest one,
   * or that there is none, is known only when all tasks have answered. Otherwise a cluster that starts slowly would
   * continue from an old checkpoint, or restart from initial values.
   */
  async #surveyAll(
    session: TrainingRunner,
    directory: string,
    { signal }: Pick<RestoreOptions, 'signal'>,
  ): Promise<Survey> {
    const { checkpoints, holders } = this.#context(session, directory);
    holders?.begin();
    let survey = await checkpoints.survey({ signal });
    while (!checkpoints.hasNewest(survey) && holders?.shouldWait(survey)) {
      // Workers that have finished are not started again.
      const end = await this.#options.findEnd?.(session, signal);
      if (end && survey.manifests.some(({ sequence }) => sequence === end.sequence)) {
        checkpoints.settleNewest(survey);
        break;
      }
      await holders.waitForMissing(survey, signal);
      survey = await checkpoints.survey({ signal });
    }
    if (checkpoints.hasNewest(survey)) return survey;
    const missing = holders?.missingFrom(survey) ?? [];
    if (missing.length === 0) checkpoints.settleNewest(survey);
    else if (survey.manifests.length + survey.unreadable.length === 0) throw this.#noAnswer(missing);
    else {
      this.#options.log?.(
        `tasks are missing: ${missing.join(', ')} may hold a newer checkpoint than those found; continuing without them`,
        'warn',
      );
    }
    return survey;
  }

  #noAnswer(absent: readonly string[]): ShoalError {
    const { waitMs = DEFAULTS.waitMs } = this.#options;
    return new ShoalError(
      'SHOAL_TIMEOUT',
      `No checkpoint was found, but ${absent.join(', ')} may hold one and did not answer within ${waitMs} ms`,
      { hint: 'Start the missing tasks, or check their addresses, the network and the credentials.' },
    );
  }

  #restoreRequest(
    session: TrainingRunner,
    variables: Context['variables'],
    { signal, missing, partial }: RestoreOptions,
  ): RestoreSelection {
    const last = ownersOf(session, missing);
    const isPartial = partial && last !== undefined && last.size > 0;
    return {
      variables: isPartial ? new Map([...variables].filter(([owner]) => last.has(owner))) : variables,
      strict: this.#options.strict,
      signal,
      last,
      readsInput: session.input !== undefined || this.#options.input !== undefined,
    };
  }

  /** The global step of the newest checkpoint that the tasks which answer have, if it is known. @internal */
  async newestStep(session: TrainingRunner, directory: string): Promise<number | undefined> {
    const { job } = this.#options;
    const manifests = await this.list(session, directory);
    const own = manifests.find((manifest) => job === undefined || manifest.job === job);
    return own?.globalStep;
  }

  /** Where the checkpoints of a directory are. @internal */
  placeOf(session: TrainingRunner, directory: string): { readonly store: Store; readonly namespace: string } {
    const { namespace } = this.#context(session, directory);
    return { store: this.#storeOf(session, directory), namespace };
  }

  /** Newest first. @internal */
  list(session: TrainingRunner, directory: string): Promise<readonly Manifest[]> {
    return this.#context(session, directory).checkpoints.list();
  }

  /** Removes old checkpoints, if no save has done so. */
  async tidy(session: TrainingRunner, directory: string): Promise<void> {
    session.server?.checkpoints.stepAlarm.throwIfRaised();
    const { checkpoints } = this.#context(session, directory);
    await checkpoints.tidy();
    // The checkpoint that is there already is the last one if no other follows.
    const gathering = session.gathering ?? session.server?.checkpoints.gathering;
    gathering?.restored(checkpoints, this.#options.gather);
  }

  /** Protects checkpoints from removal, by path or prefix. */
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
    const { store = DEFAULTS.store, blobs = directory } = this.#options;
    if (session.server) return session.server.checkpoints.store(store);
    return store === 'peers:' ? new DirectoryStore(blobs) : openFileStore(store);
  }

  /** Cached per session and directory. */
  #context(session: TrainingRunner, directory: string): Context {
    const key = session.server ?? session;
    const contexts = this.#contexts.get(key) ?? new Map<string, Context>();
    this.#contexts.set(key, contexts);
    const known = contexts.get(directory);
    if (known) return known;
    const context = this.#openContext(session, directory);
    contexts.set(directory, context);
    return context;
  }

  #openContext(session: TrainingRunner, directory: string): Context {
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
        ...(session.pauseControl && { pauseControl: session.pauseControl }),
        // One incarnation per process, to distinguish the files of earlier processes.
        chief: { task: '', incarnation: Math.floor(performance.timeOrigin) },
        // A shared directory has the shards of all tasks.
        isAlone: url === DEFAULTS.store,
        roots: [root],
      });
      const saved = named.map(({ variable, key }) => savedVariable(variable, key));
      return { checkpoints, namespace, variables: new Map(saved.length > 0 ? [[LOCAL_OWNER, saved]] : []) };
    }
    const service = server.checkpoints;
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
      // The incarnation may increase while the task runs.
      get chief() {
        return service.chief;
      },
      namespace,
      // Agents reject a replaced chief; a directory that all tasks share has no agent.
      confirmChief:
        store.kind === 'peers' ? async () => service.stepAlarm.throwIfRaised() : service.confirmChief,
      roots: [store instanceof DirectoryStore ? store.root : service.directory],
      ...(isSpread && { own: new DirectoryStore(service.directory) }),
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

/**
 * A worker may begin to train when all variables have values, so tasks that came back without values are restored last,
 * after all others.
 */
function ownersOf(
  { server }: TrainingRunner,
  missing: readonly Variable[] | undefined,
): ReadonlySet<string> | undefined {
  if (!server || !missing) return undefined;
  return new Set(missing.map(({ device }) => server.checkpoints.ownerOf(device)));
}

/** Which tasks were restored, and whether the global step was, if not all tasks were. */
function restoredPart(
  session: TrainingRunner,
  all: Context['variables'],
  { variables }: RestoreSelection,
): Pick<Restored, 'tasks' | 'hasGlobalStep'> {
  const { server } = session;
  if (!server || variables.size === all.size) return {};
  const globalStep = globalStepOf(session);
  const hasGlobalStep =
    globalStep === undefined || variables.has(server.checkpoints.ownerOf(globalStep.device));
  return { tasks: [...variables.keys()], hasGlobalStep };
}
