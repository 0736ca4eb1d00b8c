/**
 * TensorFlow 1's Saver. In one process it writes a directory that TensorFlow reads. On a cluster each ps writes its
 * shard to its own disk and to that of another task; only metadata passes through this task.
 *
 * Checkpoints always have one shard per task that holds variables. `sharded` is accepted for compatibility only.
 */

import { basename, dirname, join } from 'node:path';
import {
  describeError,
  firstLineOf,
  invalid,
  isShoalError,
  ShoalError,
} from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { checkGatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import { pushCheckpoint } from '../../../distributed/checkpoint/directory/transfer.js';
import { consistencyOf } from '../../../distributed/checkpoint/format/consistency.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import type { RestoreReport, RestoreSelection } from '../../../distributed/checkpoint/protocol/restore.js';
import type { Survey } from '../../../distributed/checkpoint/reading/catalog.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import type { Store } from '../../../distributed/store/store.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { MetaGraphs } from '../../../tensorflow/variables/meta-graph.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { Restored } from '../recovery/recovery-report.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { checkpointInDirectory, restoreFromDirectory } from './directory-checkpoint.js';
import { readStep, restoring } from './guarded-step.js';
import { DEFAULT_WAIT_MS, openContext, type SaverContext } from './saver-context.js';
import type { RestoreOptions, SaveOptions, SaverOptions } from './saver-options.js';

export { namedVariables, namespaceOf } from './saver-context.js';
export type { RestoreOptions, SaveOptions, SaverOptions, VarList } from './saver-options.js';

const DEFAULTS = { maxToKeep: 5, store: 'peers:', waitMs: DEFAULT_WAIT_MS } as const;
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
  beforeRemoval: true,
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
  readonly #contexts = new WeakMap<object, Map<string, SaverContext>>();
  readonly #metaGraphs = new MetaGraphs();
  #last: readonly string[] = [];
  /** The contexts see its changes. */
  readonly #pinned = new Set<string>();

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
      metrics?.emit({ type: 'save-failed', why: firstLineOf(error) });
      throw error;
    });
    if (outcome === undefined)
      throw new ShoalError('SHOAL_ABORTED', `${path} was not saved: another save is running`);
    const bytes = outcome.manifest.files.reduce((sum, { size }) => sum + size, 0);
    const ms = performance.now() - begun;
    metrics?.saved(ms, bytes);
    const { prefix: checkpoint, step } = outcome.manifest;
    metrics?.emit({ type: 'saved', checkpoint, step, ms, bytes });
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
    variables: SaverContext['variables'],
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
    this.#pinned.clear();
    for (const attempt of pinned) this.#pinned.add(attempt);
  }

  /** Protects checkpoints from removal, by their attempts. @internal */
  pinAttempts(attempts: Iterable<string>): void {
    this.#pinned.clear();
    for (const attempt of attempts) this.#pinned.add(attempt);
  }

  /** Restores the checkpoint of this attempt; undefined if it does not exist. @internal */
  async restoreAttempt(
    session: TrainingRunner,
    directory: string,
    attempt: string,
    options: RestoreOptions = {},
  ): Promise<RestoreReport | undefined> {
    const { checkpoints, holders, variables } = this.#context(session, directory);
    holders?.begin();
    const manifest = (await checkpoints.list()).find((one) => one.attempt === attempt);
    if (!manifest) return undefined;
    const request = this.#restoreRequest(session, variables, options);
    return restoring(session, () => checkpoints.restore(manifest, request));
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
  #context(session: TrainingRunner, directory: string): SaverContext {
    const key = session.server ?? session;
    const contexts = this.#contexts.get(key) ?? new Map<string, SaverContext>();
    this.#contexts.set(key, contexts);
    const known = contexts.get(directory);
    if (known) return known;
    const context = this.#openContext(session, directory);
    contexts.set(directory, context);
    return context;
  }

  #openContext(session: TrainingRunner, directory: string): SaverContext {
    const { keepCheckpointEveryNHours: everyHours, maxToKeep: keep = DEFAULTS.maxToKeep } = this.#options;
    const retention = { keep, everyHours, pinned: this.#pinned };
    const store = this.#storeOf(session, directory);
    const isOwnStore = (this.#options.store ?? DEFAULTS.store) === DEFAULTS.store;
    return openContext(session, { ...this.#options, directory, store, isOwnStore, retention });
  }
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
  all: SaverContext['variables'],
  { variables }: RestoreSelection,
): Pick<Restored, 'tasks' | 'hasGlobalStep'> {
  const { server } = session;
  if (!server || variables.size === all.size) return {};
  const globalStep = globalStepOf(session);
  const hasGlobalStep =
    globalStep === undefined || variables.has(server.checkpoints.ownerOf(globalStep.device));
  return { tasks: [...variables.keys()], hasGlobalStep };
}
