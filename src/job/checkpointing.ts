/**
 * The checkpoints of a job while it trains: the chief saves at the start, every so often, and at the end, in the background
 * of the steps. A save that fails is told of, and training goes on.
 */

import { join, resolve } from 'node:path';
import { consistencyOf } from '../checkpoint/consistency.js';
import { messageOf } from '../errors/errors.js';
import { Saver } from '../train/checkpoints/saver.js';
import type { RecoveryGuard } from '../train/recovery/recovery-guard.js';
import type { CheckpointedInput, TrainingRunner } from '../train/recovery/training-runner.js';
import { getGlobalStep } from '../variables/global-step.js';
import type { Variable } from '../variables/variable.js';
import type { CheckpointOptions, JobDefinition } from './define-job.js';
import { refuseFormerLayout } from './former-layout.js';
import { Periodic } from './periodic.js';
import { blobsIn } from './task-directory.js';

const BASENAME = 'model.ckpt';
const DIRECTORY = 'checkpoints';
const READ_MS = 30_000;

export class JobCheckpoints {
  readonly directory: string;
  readonly #job: string;
  readonly #dir: string;
  readonly #saver: Saver;
  readonly #session: TrainingRunner;
  readonly #options: CheckpointOptions;
  readonly #log: (line: string) => void;
  readonly #recoveryGuard: RecoveryGuard;
  readonly #input: CheckpointedInput | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #saves: Periodic;
  #saved: number | undefined;

  constructor(
    job: JobDefinition,
    options: CheckpointOptions,
    parts: {
      readonly session: TrainingRunner;
      /** The task's own directory. */
      readonly dir: string;
      readonly log: (line: string) => void;
      /** Keeps saves apart from recoveries. */
      readonly recoveryGuard: RecoveryGuard;
      readonly input?: CheckpointedInput | undefined;
      /** Ends a restore, which may wait for other tasks. */
      readonly signal?: AbortSignal | undefined;
    },
  ) {
    const { everySecs, everySteps } = options;
    this.#saves = new Periodic({
      everySecs: everySecs ?? (everySteps === undefined ? 60 : undefined),
      everySteps,
      work: () => this.#saveOrLog(),
    });
    this.#options = options;
    this.#session = parts.session;
    this.#log = parts.log;
    this.#recoveryGuard = parts.recoveryGuard;
    const { input } = parts;
    this.#input = input;
    this.#signal = parts.signal;
    this.#job = job.name;
    this.#dir = parts.dir;
    this.directory = resolve(parts.dir, options.directory ?? DIRECTORY);
    this.#saver = new Saver({
      maxToKeep: options.keep ?? 5,
      keepCheckpointEveryNHours: options.everyHours,
      consistency: options.consistency,
      store: options.store,
      pauseTimeoutSecs: options.pauseTimeoutSecs,
      blobs: blobsIn(parts.dir),
      namespace: job.name,
      job: job.name,
      ...(options.waitSecs === undefined ? {} : { waitMs: options.waitSecs * 1000 }),
      log: parts.log,
      ...(input ? { input: () => input.cut() } : {}),
    });
  }

  /** The chief's way to values: the newest checkpoint, where there is one. */
  async restore(missing: readonly Variable[], again: boolean): Promise<boolean> {
    if (!this.#session.server && (await this.#saver.list(this.#session, this.directory)).length === 0) {
      const former = resolve(this.#options.directory ?? DIRECTORY);
      await refuseFormerLayout(this.#job, [former, this.directory], blobsIn(this.#dir));
    }
    const options = { missing, signal: this.#signal };
    const report = await this.#saver.restoreNewest(this.#session, this.directory, options);
    if (!report) return false;
    const { manifest, bytesRead, input } = report;
    this.#saved = manifest.step;
    const lost = missing.length > 0 ? `${missing.length} variables were lost: ` : '';
    const why = again ? `${lost}all go` : 'training goes';
    this.#log(`${why} back to ${manifest.prefix} (${(bytesRead / 1e6).toFixed(1)} MB read)`);
    this.#input?.restored(input);
    return true;
  }

  /** Begins: the first checkpoint at once, others when it is time. */
  begin(step: number): void {
    this.#saves.begin(step);
    if (this.#saved !== step) this.#saves.start();
  }

  /** Tells the global step. */
  saw(step: number): void {
    this.#saves.saw(step);
  }

  async #saveOrLog(): Promise<void> {
    if (!this.#recoveryGuard.isStable) return;
    try {
      await this.#save();
    } catch (error) {
      this.#log(
        this.#recoveryGuard.isStable
          ? `SAVING A CHECKPOINT FAILED: ${messageOf(error)}; training goes on`
          : 'a save was given up: the cluster is being recovered',
      );
    }
  }

  async #save(): Promise<void> {
    const begun = performance.now();
    const path = await this.#recoveryGuard.during('A save', async (signal) => {
      await this.#input?.settled(signal);
      return this.#saver.save(this.#session, join(this.directory, BASENAME), { signal });
    });
    this.#saved = Number(/-(\d+)$/.exec(path)?.[1]);
    this.#log(`saved ${BASENAME}-${this.#saved} in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  }

  /**
   * The last checkpoint, where the last step is in none yet, when nobody trains any more. That it cannot be saved is an
   * error: what it would hold is lost.
   */
  async end(step: number): Promise<void> {
    await this.#saves.stop();
    if (!(await this.#isSaved(this.#session.server ? undefined : step))) return this.#save();
    await this.#saver
      .tidy(this.#session, this.directory)
      .catch((error: unknown) => this.#log(`old checkpoints could not be removed: ${messageOf(error)}`));
  }

  /** Whether nothing was trained since the newest checkpoint; `step` where nobody else trains. */
  async #isSaved(step: number | undefined): Promise<boolean> {
    // What was saved while others trained on may be of no one instant.
    if (
      this.#saved === undefined ||
      (step === undefined && consistencyOf(this.#options.consistency) === 'relaxed')
    )
      return false;
    if (step !== undefined) return step === this.#saved;
    const globalStep = getGlobalStep(this.#session.graph);
    if (!globalStep) return false;
    try {
      return (
        (await this.#session.run(globalStep.toOutput(), { timeoutMs: READ_MS })).number() === this.#saved
      );
    } catch (error) {
      this.#log(`the last step could not be read: ${messageOf(error)}; it is saved once more`);
      return false;
    }
  }

  /** Ends without a last checkpoint. */
  stop(): Promise<void> {
    return this.#saves.stop();
  }
}
