/** The checkpoints of a job: the chief saves at the start, periodically, and at the end, while training continues. */

import { join, resolve } from 'node:path';
import { describeError } from '../../../base/errors/errors.js';
import { bytes, variablesLost } from '../../../base/text/format.js';
import type { Log } from '../../../base/text/log.js';
import { consistencyOf } from '../../../distributed/checkpoint/format/consistency.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import {
  type FoundEnd,
  findEnd,
  forgetEnd,
  recordEnd,
} from '../../../distributed/checkpoint/reading/end-record.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import {
  LAST_SAVE_MS,
  RetryingSaver,
  readLastStep,
} from '../../../training/train/checkpoints/retrying-saver.js';
import {
  atEnd,
  every,
  SaveSchedule,
  ScheduledWork,
  whenLeaving,
} from '../../../training/train/checkpoints/save-schedule.js';
import { Saver } from '../../../training/train/checkpoints/saver.js';
import type { TrainingRunner } from '../../../training/train/task/training-runner.js';
import type { CheckpointOptions, JobDefinition } from '../definition/define-job.js';
import { blobsIn } from '../directory/task-directory.js';

const BASENAME = 'model.ckpt';
const DIRECTORY = 'checkpoints';

export interface JobCheckpointsOptions {
  /** The task's own directory. */
  readonly dir: string;
  readonly log: Log;
  /** Cancels a restore, which may wait for other tasks. */
  readonly signal?: AbortSignal;
  /** Called with an error of the job's `onSave`. */
  readonly onError: (error: unknown) => void;
  /** Returns the attempts of checkpoints that must not be removed, whatever their age. Default: none. */
  readonly pinned?: (() => Promise<readonly string[]>) | undefined;
}

export class JobCheckpoints {
  readonly directory: string;
  readonly #job: string;
  readonly #lastStep: number;
  readonly #isPartial: boolean;
  readonly #options: CheckpointOptions;
  readonly #task: JobCheckpointsOptions;
  readonly #saver: Saver;
  readonly #saves: RetryingSaver;
  readonly #work: ScheduledWork;
  #session!: TrainingRunner;
  #step = 0;

  constructor(job: JobDefinition, options: CheckpointOptions, task: JobCheckpointsOptions) {
    const { everySecs, everySteps } = options;
    const { dir, log, onError, pinned } = task;
    const { onSave } = job.callbacks ?? {};
    const secs = everySecs ?? (everySteps === undefined ? 60 : undefined);
    const schedule = new SaveSchedule([...every({ secs, steps: everySteps }), atEnd, whenLeaving]);
    this.#work = new ScheduledWork(schedule, async () => {
      if (!this.#saves.held && this.#hasNewSteps) await this.#saves.save(this.#session, this.#step);
    });
    this.#options = options;
    this.#task = task;
    this.#job = job.name;
    this.#lastStep = job.train.lastStep;
    this.#isPartial = job.train.recovery === 'partial';
    this.directory = resolve(dir, options.directory ?? DIRECTORY);
    this.#saver = new Saver({
      maxToKeep: options.keep ?? 5,
      keepCheckpointEveryNHours: options.everyHours,
      consistency: options.consistency,
      store: options.store,
      pauseTimeoutSecs: options.pauseTimeoutSecs,
      blobs: blobsIn(dir),
      namespace: job.name,
      job: job.name,
      gather: options.gather,
      findEnd: (session) => this.#findEnd(session),
      ...(pinned && { beforeRemoval: async () => this.#saver.pinAttempts(await pinned()) }),
      waitMs: options.waitSecs === undefined ? undefined : options.waitSecs * 1000,
      log,
    });
    const path = join(this.directory, BASENAME);
    this.#saves = new RetryingSaver({
      saver: () => this.#saver,
      path,
      label: BASENAME,
      schedule,
      log,
      // A failed callback is not a failed save, which would be repeated.
      onSaved: onSave && ((event) => Promise.resolve(event).then(onSave).catch(onError)),
    });
  }

  /** Restores the newest checkpoint, if there is one. */
  async restore(session: TrainingRunner, missing: readonly Variable[], again: boolean): Promise<boolean> {
    const { log, signal } = this.#task;
    const partial = this.#isPartial && missing.length > 0;
    const report = await this.#saver.restoreNewest(session, this.directory, { missing, partial, signal });
    if (!report) return false;
    const { manifest, bytesRead, input } = report;
    // After a partial restore the values of the other tasks are not in this checkpoint.
    this.#saves.restored(partial ? undefined : manifest.step);
    const tidied = this.#saves.tidy(session);
    // The workers of a cluster wait for the restore only.
    if (!session.server) await tidied;
    const why = again && missing.length > 0 ? `${variablesLost(missing.length)}: ` : '';
    log(`${why}restored ${manifest.prefix} (${bytes(bytesRead)} read)`, 'info', {
      event: 'restore',
      step: manifest.step,
      checkpoint: manifest.prefix,
      bytes: bytesRead,
    });
    if (session.input) session.input.restored(input);
    else if (input !== undefined)
      log(
        'the position in the input, which the checkpoint contains, is not used: this run reads it from the beginning',
      );
    return true;
  }

  /** The step of the newest checkpoint. */
  newestStep(session: TrainingRunner): Promise<number | undefined> {
    return this.#saver.newestStep(session, this.directory);
  }

  /**
   * Starts the schedule. The first checkpoint is saved immediately, unless it was just restored, or no step follows: a
   * pause of synchronous steps would wait for one.
   */
  begin(session: TrainingRunner, step: number, lastStep: number): void {
    this.#session = session;
    this.#step = step;
    this.#work.begin(step);
    this.#saves.savesWhenLeaving(session, (hold) => this.#saves.saveHeld(session, this.#step, hold));
    if (this.#saves.savedStep !== step && step < lastStep) this.#work.start();
  }

  /** Reports the global step. */
  onStep(step: number): void {
    this.#step = step;
    this.#work.onStep(step);
  }

  /**
   * Saves the last checkpoint, unless the newest one contains the last step already. Call it when no worker trains any
   * more, or with `hold` to pause those that do. Throws on failure: the steps since the newest checkpoint would be lost.
   */
  async end(step: number, hold?: Hold): Promise<void> {
    await this.stop();
    if ((await this.#saves.held) !== undefined) return;
    // A checkpoint saved while other workers trained may contain parts of later steps.
    const isExact = !this.#session.server || consistencyOf(this.#options.consistency) === 'consistent';
    const last = isExact ? await readLastStep(this.#session, step, this.#task.log) : undefined;
    const { lastSaveSecs = LAST_SAVE_MS / 1000 } = this.#options;
    const { signal } = this.#task;
    const options = { hold, signal, patienceMs: lastSaveSecs * 1000 };
    if (!(await this.#saves.saveLast(this.#session, last, options))) throw this.#saves.failure;
  }

  /**
   * Whether the newest checkpoint lacks a step. In one process training may wait, for an evaluation; on a cluster other workers
   * may have made steps that this task has not seen.
   */
  get #hasNewSteps(): boolean {
    return this.#session.server !== undefined || this.#saves.savedStep !== this.#step;
  }

  /** The newest checkpoint, after a save unless the current step is saved. In one process, between two steps. */
  async saved(): Promise<Manifest | undefined> {
    await this.#work.running;
    if (this.#saves.savedStep !== this.#step) {
      // By the schedule, whose interval then counts from this save.
      this.#work.start();
      await this.#work.running;
    }
    return this.newest();
  }

  async newest(): Promise<Manifest | undefined> {
    return (await this.#saver.list(this.#session, this.directory))[0];
  }

  /**
   * Makes an earlier checkpoint the last one: restores it and saves it again, with the position in the input that it had.
   * No task trains any more. Returns false if it does not exist.
   */
  async endAt(attempt: string): Promise<boolean> {
    const session = this.#session;
    const { signal } = this.#task;
    const report = await this.#saver.restoreAttempt(session, this.directory, attempt, { signal });
    if (!report) return false;
    const { input } = session;
    const from: TrainingRunner = input
      ? { ...session, input: { ...input, settled: async () => {}, snapshot: () => report.input } }
      : session;
    const { lastSaveSecs = LAST_SAVE_MS / 1000 } = this.#options;
    const options = { signal, patienceMs: lastSaveSecs * 1000 };
    if (!(await this.#saves.saveLast(from, undefined, options))) throw this.#saves.failure;
    return true;
  }

  #placeOfEnd(session: TrainingRunner) {
    const { store, namespace } = this.#saver.placeOf(session, this.directory);
    return { store, ended: { namespace, job: this.#job, lastStep: this.#lastStep } };
  }

  /** The record of the end of training. If it cannot be looked up, training goes on. */
  async #findEnd(session: TrainingRunner): Promise<FoundEnd | undefined> {
    const { signal, log } = this.#task;
    const { store, ended } = this.#placeOfEnd(session);
    try {
      return await findEnd(store, ended, { signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      log(`whether training has ended could not be looked up: ${describeError(error)}`);
      return undefined;
    }
  }

  /**
   * Whether training has ended, and not after this step. If it begins again with an earlier step, because the last
   * checkpoint cannot be restored, the record is removed: it would send other tasks home.
   */
  async hasEnded(session: TrainingRunner, step: number): Promise<boolean> {
    const end = await this.#findEnd(session);
    if (end === undefined) return false;
    if (step >= end.step) return true;
    const { signal, log } = this.#task;
    const { store, ended } = this.#placeOfEnd(session);
    await forgetEnd(store, ended, { signal }).catch((error: unknown) =>
      log(`the record of an earlier end of training could not be removed: ${describeError(error)}`),
    );
    return false;
  }

  /** Records the end beside the last checkpoint: the job is finished, even if it has stopped early. */
  async recordEnd(): Promise<void> {
    const { store, ended } = this.#placeOfEnd(this.#session);
    try {
      const [newest] = await this.#saver.list(this.#session, this.directory);
      if (newest) await recordEnd(store, ended, newest, { endedAtMs: Date.now() });
    } catch (error) {
      this.#task.log(`the end of training could not be recorded: ${describeError(error)}`);
    }
  }

  /** Ends without a last checkpoint. */
  async stop(): Promise<void> {
    if (this.#session) this.#saves.leavesNoMore(this.#session);
    await this.#work.stop();
  }
}
