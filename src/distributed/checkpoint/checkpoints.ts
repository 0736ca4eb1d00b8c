/**
 * The checkpoints of one job, as its chief manages them: save, find, restore, remove old ones. One save runs at a time.
 * A failed save is logged, attempted again unless the caller does that, and never visible as a checkpoint.
 */
import { backoffMs } from '../../base/async/backoff.js';
import { sleep } from '../../base/async/deadline.js';
import {
  describeError,
  firstLineOf,
  isShoalError,
  type ShoalCode,
  ShoalError,
} from '../../base/errors/errors.js';
import { bytes, count } from '../../base/text/format.js';
import { describeBytes } from '../../base/text/progress-line.js';
import type { DirectoryStore } from '../store/disk/directory-store.js';
import { report, SWEEP_EVERY_MS } from '../store/disk/sweeping.js';
import { type GatherMode, gatherCheckpoint } from './directory/gather.js';
import { CheckpointView } from './directory/view.js';
import type { Manifest } from './format/manifest.js';
import { expired, type Retention } from './maintenance/retention.js';
import { completeCopies } from './protocol/complete-copies.js';
import {
  type HolderWait,
  type RestoreReport,
  type RestoreSelection,
  restoreCheckpoint,
  restoreNewest,
} from './protocol/restore.js';
import { type SaveContext, type SaveOutcome, type SaveRequest, save } from './protocol/save.js';
import {
  type CatalogListOptions,
  healthOf,
  removeCheckpoint,
  type Survey,
  surveyCheckpoints,
  sweepAttempts,
} from './reading/catalog.js';
import { replaceDamaged } from './reading/replace-damaged.js';

export interface CheckpointsOptions extends SaveContext {
  readonly retention: Retention;
  /** Called before checkpoints are removed: it may pin some. Default: none. */
  readonly beforeRemoval?: (() => Promise<void>) | undefined;
  /** The directory for TensorFlow's `checkpoint` file, and the directories of this disk that may hold blobs. */
  readonly directory?: string;
  readonly roots?: readonly string[];
  /** The blobs of this task, if the store has other places too. */
  readonly own?: DirectoryStore;
  readonly waitForHolders?: HolderWait;
  /** Whether this process belongs to no cluster; default: false. */
  readonly isAlone?: boolean;
  /** Checkpoints of another job are not restored. */
  readonly job?: string;
  /** How often a save is attempted; default: 3. */
  readonly attempts?: number;
  /** How long lost copies are made again after a commit; default: 5 minutes. */
  readonly copiesMs?: number;
}

export interface CheckpointRequest extends SaveRequest {
  /**
   * Whether to save if the directory holds files of the same name that Shoal did not write. The checkpoint is then in
   * the store, but not shown in the directory. Default: false, the save fails.
   */
  readonly mayHide?: boolean;
  /** How often it is attempted; 1 if the caller retries. Default: that of the checkpoints. */
  readonly attempts?: number;
}

interface GatherWhen {
  readonly signal?: AbortSignal;
  /** Whether training has ended; default: true. */
  readonly isEnd?: boolean;
}

/** What to do with a save that is requested while another one runs. */
export type WhenBusy = 'queue' | 'skip';

export class Checkpoints {
  readonly #options: CheckpointsOptions;
  readonly #known = new Map<string, Manifest>();
  readonly #view: CheckpointView | undefined;
  #running: Promise<unknown> | undefined;
  #kept: readonly Manifest[] | undefined;
  /** Attempts that a restore has skipped for an older one. */
  readonly #skipped = new Set<string>();
  /** Whether unfinished saves may have left files. */
  #isUnswept = true;
  #sweptAt = Number.NEGATIVE_INFINITY;
  /** The highest sequence attempted by this process. */
  #tried: number | undefined;
  /** The sequence of the job's newest checkpoint; 0: there is none; undefined: unknown. */
  #newest: number | undefined;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
    const { directory, roots = [] } = options;
    this.#view = directory === undefined ? undefined : new CheckpointView({ ...options, directory, roots });
  }

  /** The checkpoints after the last save, newest first; undefined if unknown. */
  get kept(): readonly Manifest[] | undefined {
    return this.#kept;
  }

  get isSaving(): boolean {
    return this.#running !== undefined;
  }

  /** Resolves when the checkpoint is committed; with undefined if it was skipped because another save runs. */
  async save(request: CheckpointRequest, whenBusy: WhenBusy = 'queue'): Promise<SaveOutcome | undefined> {
    while (this.#running) {
      if (whenBusy === 'skip') return undefined;
      await this.#running;
    }
    return this.#alone(() => this.#save(request));
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    this.#running = running.catch(() => undefined);
    try {
      return await running;
    } finally {
      this.#running = undefined;
    }
  }

  async #save(request: CheckpointRequest): Promise<SaveOutcome> {
    const { log, store } = this.#options;
    const { attempts = this.#options.attempts ?? 3 } = request;
    if (performance.now() - this.#sweptAt > SWEEP_EVERY_MS) {
      this.#sweptAt = performance.now();
      report(store.sweep(), log);
    }
    const checkPrefix = request.mayHide ? undefined : (prefix: string) => this.#checkPrefix(prefix);
    for (let attempt = 1; ; attempt++) {
      try {
        const outcome = await save(
          this.#options,
          { ...request, checkPrefix },
          {
            above: this.#tried,
            onSequence: (sequence) => {
              this.#tried = sequence;
            },
          },
        );
        this.#newest = outcome.manifest.sequence;
        const lacking = await this.#keep(outcome.manifest, request);
        return { ...outcome, shortfall: outcome.shortfall + lacking };
      } catch (error) {
        this.#isUnswept = true;
        const isFinal = attempt >= attempts || request.signal?.aborted || !isWorthAnother(error);
        if (!request.signal?.aborted)
          log?.(`saving a checkpoint failed: ${firstLineOf(error)}${isFinal ? '' : '; retrying'}`, 'warn');
        if (isFinal) throw error;
        await sleep(backoffMs(attempt - 1, { baseMs: 500, maxMs: 10_000 }), request.signal);
      }
    }
  }

  /** The path of a checkpoint must name the saved files, not files of another program. */
  async #checkPrefix(prefix: string): Promise<void> {
    const { directory } = this.#options;
    const [file] = (await this.#view?.foreignFiles(prefix)) ?? [];
    if (file === undefined) return;
    throw new ShoalError(
      'SHOAL_ALREADY_EXISTS',
      `${prefix} was not saved: ${directory} has a file ${file} that Shoal did not write`,
      { hint: `Move the files ${prefix}.* away, or save under another name or to another directory.` },
    );
  }

  /**
   * Removes expired checkpoints: an earlier process may have been killed between a save and the removal, and tasks may
   * have returned with checkpoints that were removed while they were away. A save that is running does the same.
   */
  async tidy(): Promise<void> {
    if (this.#running) return;
    await this.#alone(async () => {
      const [newest] = await this.list({ known: this.#known });
      if (newest) await this.#keep(newest);
    });
  }

  /**
   * After a commit, with its request: makes lost copies again, removes expired checkpoints and leftovers, and updates the
   * directory. No failure undoes the commit. Resolves with the number of copies that the checkpoint lacks.
   */
  async #keep(newest: Manifest, saved?: Pick<CheckpointRequest, 'signal'>): Promise<number> {
    this.#kept = undefined;
    const { store, namespace, retention, log, chief, now, copiesMs } = this.#options;
    let lacking = 0;
    try {
      const copies =
        saved &&
        (await completeCopies(store, namespace, newest, { signal: saved.signal, limitMs: copiesMs, log }));
      lacking = copies?.lacking ?? 0;
      await this.#options.confirmChief?.();
      const manifests = await this.list({ known: this.#known });
      const policy = { ...retention, skipped: this.#skipped };
      const removable = () => expired(manifests, policy).filter(({ attempt }) => attempt !== newest.attempt);
      if (removable().length > 0) await this.#options.beforeRemoval?.();
      const old = removable();
      // Older checkpoints are removed only while this one is complete.
      const isThere =
        old.length > 0 &&
        manifests.some(({ attempt }) => attempt === newest.attempt) &&
        (copies ?? (await healthOf(store, namespace, newest))).missing.length === 0;
      const gone = new Set(isThere ? old : []);
      for (const manifest of gone) await removeCheckpoint(store, namespace, manifest);
      if (this.#isUnswept && saved) {
        // Every owner has taken this chief's snapshot: none writes for an earlier chief any more.
        const { attempt, sequence } = newest;
        const last = { incarnation: chief.incarnation, sequence, attempt };
        const swept = await sweepAttempts(store, namespace, last, { nowMs: now() });
        this.#isUnswept = false;
        if (swept > 0) log?.(`removed ${swept} files left by unfinished saves`);
      }
      const kept = manifests.filter((manifest) => !gone.has(manifest));
      this.#kept = kept;
      await this.updateView(kept);
    } catch (error) {
      log?.(`${newest.prefix} is saved, but the cleanup after it failed: ${describeError(error)}`, 'warn');
    }
    return lacking;
  }

  /** Newest first, without unreadable ones. Manifests in `known` are not read again. */
  async list(options: Pick<CatalogListOptions, 'known'> = {}): Promise<readonly Manifest[]> {
    return (await this.survey(options)).manifests;
  }

  /** Includes unreadable checkpoints. */
  survey({ known, signal }: Pick<CatalogListOptions, 'known' | 'signal'> = {}): Promise<Survey> {
    const { store, namespace, log } = this.#options;
    return surveyCheckpoints(store, namespace, { onNotice: log, known, signal });
  }

  /** Whether these certainly include the job's newest checkpoint: only this process saves. */
  hasNewest(survey: Survey): boolean {
    return this.#newest !== undefined && newestOf(survey) >= this.#newest;
  }

  /** Records that no task can hold a newer checkpoint than these. */
  settleNewest(survey: Survey): void {
    this.#newest = newestOf(survey);
  }

  /** Updates the job's directory to match the store. */
  async updateView(manifests?: readonly Manifest[]): Promise<void> {
    await this.#view?.update(manifests ?? (() => this.list()));
  }

  /**
   * Completes the newest checkpoint in the directory, or all. A failure is a warning: the checkpoint is saved. The work
   * during training is stopped without one, because that at the end repeats it.
   */
  async gather(which: Exclude<GatherMode, 'none'>, { signal, isEnd = true }: GatherWhen = {}): Promise<void> {
    const view = this.#view;
    const { store, namespace, own, log, directory } = this.#options;
    const manifests =
      this.#kept ??
      (await this.list({ known: this.#known }).catch((error: unknown) => {
        log?.(`the checkpoints could not be completed in ${directory}: ${firstLineOf(error)}`, 'warn');
        return [];
      }));
    if (!view) return;
    let loggedAt = performance.now();
    const begun = loggedAt;
    const failed = (prefix: string, error: unknown) => {
      const why = signal?.aborted ? 'training was stopped' : firstLineOf(error);
      log?.(
        `${prefix} is saved, but not complete in ${directory}: ${why}; ${this.#pullHint(prefix)}`,
        'warn',
      );
    };
    for (const manifest of which === 'all' ? manifests : manifests.slice(0, 1)) {
      const { prefix } = manifest;
      const onProgress = (done: number, total: number) => {
        const now = performance.now();
        if (now - loggedAt < GATHER_PROGRESS_MS) return;
        loggedAt = now;
        log?.(`copying ${prefix} to ${directory}: ${describeBytes(done, total, now - begun).trim()}`);
      };
      try {
        const copied = await gatherCheckpoint({ store, namespace, view, own }, manifest, {
          signal,
          onProgress,
          onDamage: log,
        });
        if (copied.files === 0) continue;
        await this.updateView();
        log?.(
          `${prefix} is complete in ${directory} (${count(copied.files, 'file')}, ${bytes(copied.bytes)} copied)`,
        );
      } catch (error) {
        // An expired checkpoint is not missed.
        if (this.#kept && !this.#kept.some(({ attempt }) => attempt === manifest.attempt)) continue;
        if (isEnd || !signal?.aborted) failed(prefix, error);
        if (signal?.aborted || isShoalError(error, 'SHOAL_NO_SPACE')) return;
      }
    }
  }

  #pullHint(prefix: string): string {
    const { job } = this.#options;
    const flag = job === undefined ? '' : ` --job ${job}`;
    return `to copy it later: \`shoal checkpoint pull ${prefix} DIRECTORY${flag}\` (if tasks ran on other machines, with --agent HOST:PORT of a ps that runs, or --dirs with copies of their blob directories)`;
  }

  async restore(manifest: Manifest, request: RestoreSelection): Promise<RestoreReport> {
    this.#checkJob(manifest);
    return restoreCheckpoint(this.#options, manifest, request);
  }

  /**
   * Restores the newest possible checkpoint; undefined if the job has none. An unreadable checkpoint is an error or is
   * skipped for an older one; it never leads to a fresh start.
   */
  async restoreNewest(request: RestoreSelection, found?: Survey): Promise<RestoreReport | undefined> {
    const survey = found ?? (await this.survey({ signal: request.signal }));
    for (const manifest of survey.manifests) this.#checkJob(manifest);
    if (survey.manifests.length + survey.unreadable.length === 0) return undefined;
    const restored = await restoreNewest(this.#options, survey, request, (manifest) =>
      this.#checkJob(manifest),
    );
    for (const { sequence, attempt } of survey.manifests)
      if (sequence > restored.manifest.sequence) this.#skipped.add(attempt);
    const { store, log } = this.#options;
    void replaceDamaged(store, survey.damaged, { log });
    return restored;
  }

  #checkJob({ prefix, job: owner }: Manifest): void {
    const { job, store } = this.#options;
    if (job === undefined || owner === undefined || owner === job) return;
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${prefix} in ${store.url} is a checkpoint of job ${owner}, but this is job ${job}`,
      {
        hint: 'Give each job a store of its own (train.checkpoint.store), or move the other checkpoints away.',
      },
    );
  }

  async remove(manifest: Manifest): Promise<void> {
    const { store, namespace } = this.#options;
    await removeCheckpoint(store, namespace, manifest);
  }
}

const GATHER_PROGRESS_MS = 10_000;

const newestOf = ({ manifests, unreadable }: Survey): number =>
  Math.max(0, ...[...manifests, ...unreadable].map(({ sequence }) => sequence));

/** A retry cannot fix these: a wrong argument, a replaced chief, or values that only a restore brings back. */
const FINAL: ReadonlySet<ShoalCode> = new Set<ShoalCode>([
  'SHOAL_INVALID_ARGUMENT',
  'SHOAL_FORBIDDEN',
  'SHOAL_ALREADY_EXISTS',
  'SHOAL_ABORTED',
  'SHOAL_CONFIG',
  'SHOAL_TF_FAILED_PRECONDITION',
]);

function isWorthAnother(error: unknown): boolean {
  return error instanceof ShoalError && !FINAL.has(error.code);
}
