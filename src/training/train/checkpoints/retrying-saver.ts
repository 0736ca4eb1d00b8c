/**
 * Saves without failing its caller, for every face of training: a save that fails is logged, counted, and due again after
 * an increasing delay. It knows which step was saved last, and tries the last save again while time or a user can help.
 */
import { dirname } from 'node:path';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { describeError, hintLineOf, isShoalError, messageOf } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import type { Log } from '../../../base/text/log.js';
import type { Hold } from '../../../distributed/checkpoint/protocol/save.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import { READ_STEP_MS, readGlobalStep } from '../recovery/read-global-step.js';
import { isStepAlarm } from '../recovery/steps/step-alarm.js';
import type { SaveNow } from '../task/leaving-save.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { atEnd, SaveSchedule } from './save-schedule.js';

export interface RetryingSaverOptions {
  /** Called at each save: a saver may be created late. */
  readonly saver: () => SaverLike;
  /** `dir/model.ckpt`. */
  readonly path: string;
  /** The name of the checkpoint in log lines; default: `path`. */
  readonly label?: string;
  readonly log: Log;
  readonly writer?: FileWriter;
  /** When to save; default: at the end. A failed save sets when it is due again. */
  readonly schedule?: SaveSchedule;
  /** Called after each save, with the path of the checkpoint; default: none. */
  readonly onSaved?: (saved: { readonly step: number; readonly path: string }) => Promise<void>;
  readonly now?: () => number;
}

interface TryOptions {
  /** See `SaverLike.save`; default: false. */
  readonly mayHide?: boolean;
  /** Whether no other save follows; default: false. */
  readonly isLast?: boolean;
  /** See `SaverLike.save`; default: none. */
  readonly hold?: Hold | undefined;
}

export interface LastSaveOptions extends Pick<TryOptions, 'hold'> {
  /** Default: 3. */
  readonly attempts?: number;
  /**
   * How long a save is tried again after these attempts if it fails because a disk is full or does not work, or a task
   * cannot be reached: the values exist only in the memory of the tasks. Default: 0.
   */
  readonly patienceMs?: number;
  /** Gives up; default: none. */
  readonly signal?: AbortSignal | undefined;
}

const RETRY = { baseMs: 1000, maxMs: 60_000 };
const LAST_RETRY = { baseMs: 200, maxMs: 5_000 };
const PATIENT_RETRY = { baseMs: 1000, maxMs: 15_000 };
/** How long the chief tries to save the last checkpoint while a disk is full. */
export const LAST_SAVE_MS = 30 * 60_000;
/** How long a ps may be silent during the last save and return as the same process: its values are not lost then. */
const SILENT_PS_MS = 5_000;
/** The minimum time that the chief waits for the last steps of the other workers. */
export const LAST_STEPS_MS = 20_000;

export class RetryingSaver {
  readonly #options: RetryingSaverOptions;
  readonly #now: () => number;
  readonly #schedule: SaveSchedule;
  #savedStep: number | undefined;
  #failures = 0;
  #failure: unknown;
  /** Whether the last save was abandoned for a recovery, and this was logged. */
  #isAbandoned = false;
  #held: Promise<number | undefined> | undefined;

  constructor(options: RetryingSaverOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#schedule = options.schedule ?? new SaveSchedule([atEnd]);
  }

  /** The step of the newest checkpoint that is known to be committed. */
  get savedStep(): number | undefined {
    return this.#savedStep;
  }

  /** The checkpoint of this step was restored. Undefined: only in part, so no checkpoint has the current values. */
  restored(step: number | undefined): void {
    this.#savedStep = step;
  }

  /** The error of the last save that failed. */
  get failure(): unknown {
    return this.#failure;
  }

  /**
   * The save after which the workers are paused until a ps has left; undefined if there is none. Then there is nothing
   * new to save.
   */
  get held(): Promise<number | undefined> | undefined {
    return this.#held;
  }

  /** From now on saves before a ps leaves; `save` calls `saveHeld`. On the chief of a cluster. */
  savesWhenLeaving(session: TrainingRunner, save: SaveNow): void {
    if (this.#schedule.isDue('leaving', undefined)) session.server?.checkpoints.leavingSave.savesBy(save);
  }

  /** The last save follows, or none. */
  leavesNoMore({ server }: TrainingRunner): void {
    server?.checkpoints.leavingSave.savesBy(undefined);
  }

  /** Saves before a ps leaves. Resolves with the step of the checkpoint, or undefined if the save failed. */
  async saveHeld(session: TrainingRunner, step: number, hold: Hold): Promise<number | undefined> {
    const forget = () => {
      this.#held = undefined;
    };
    void hold.until.then(forget);
    this.#held = this.save(session, step, { hold }).then((isSaved) => {
      if (isSaved) return this.#savedStep;
      forget();
      return undefined;
    });
    return this.#held;
  }

  /** Checks whether this step is already saved, as after a restore. */
  async findSaved(session: TrainingRunner, step: number): Promise<boolean> {
    const { saver, path, log } = this.#options;
    try {
      const newest = await saver().latest(session, dirname(path));
      if (newest?.endsWith(`${path.replace(/^.*\//, '/')}-${step}`)) this.#savedStep = step;
    } catch (error) {
      log(`the newest checkpoint could not be looked up: ${describeError(error)}`, 'warn');
    }
    return this.#savedStep === step;
  }

  /** Tries once; returns whether a checkpoint was committed. */
  async save(
    session: TrainingRunner,
    step: number,
    { mayHide = false, isLast = false, hold }: TryOptions = {},
  ): Promise<boolean> {
    const { saver, path, label, log, writer, onSaved } = this.#options;
    const { recoveryGuard, input } = session;
    const begun = performance.now();
    try {
      const write = async (signal?: AbortSignal) => {
        await input?.settled(signal);
        return saver().save(session, path, {
          mayHide,
          signal,
          hold,
          attempts: isLast && !mayHide ? 1 : undefined,
        });
      };
      const saved = await (recoveryGuard ? recoveryGuard.during('A save', write) : write());
      this.#failures = 0;
      this.#isAbandoned = false;
      this.#savedStep = stepOf(saved) ?? step;
      // A program that has failed closes its session, and the event file, during a save.
      if (writer?.isClosed === false)
        writer.addSessionLog('checkpoint', this.#savedStep, { checkpointPath: saved });
      const seconds = (performance.now() - begun) / 1000;
      const name = label === undefined ? saved : label + saved.slice(saved.lastIndexOf('-'));
      const data = { event: 'save', step: this.#savedStep, path: saved, seconds } as const;
      log(`saved ${name} in ${seconds.toFixed(1)} s`, 'info', data);
      await onSaved?.({ step: this.#savedStep, path: saved });
      return true;
    } catch (error) {
      const waitMs = backoffMs(this.#failures, RETRY);
      this.#failure = error;
      if (recoveryGuard?.isStable === false) {
        if (!this.#isAbandoned)
          log(
            `the save of step ${step} was abandoned: the cluster is being recovered; the next save follows`,
            'warn',
          );
        this.#isAbandoned = true;
        this.#schedule.retryIn(waitMs);
        return false;
      }
      this.#isAbandoned = false;
      if (isStepAlarm(error)) {
        log(`step ${step} is not saved: ${describeError(error)}`, 'error');
        return false;
      }
      this.#failures += 1;
      this.#schedule.retryIn(waitMs);
      log(
        `saving the checkpoint of step ${step} failed (${this.#failures} in a row): ${messageOf(error)}${isLast ? '' : `; training continues, the next try is in ${Math.ceil(waitMs / 1000)} s`}${hintLineOf(error)}`,
        'error',
      );
      return false;
    }
  }

  /** Saves the last step, unless it is saved already: retries, then logs the failure. */
  async saveLast(
    session: TrainingRunner,
    step: number | undefined,
    { attempts = 3, hold, patienceMs = 0, signal }: LastSaveOptions = {},
  ): Promise<boolean> {
    // A save before a ps leaves may be running; the ps is gone after it.
    await this.#held;
    if (!this.#schedule.isDue('end', step, this.#savedStep)) {
      await this.tidy(session);
      return true;
    }
    const end = this.#now() + patienceMs;
    let lostAt: number | undefined;
    const isPsLost = () => {
      lostAt = (session.server?.lostPs() ?? []).length === 0 ? undefined : (lostAt ?? this.#now());
      return lostAt !== undefined && this.#now() - lostAt > SILENT_PS_MS;
    };
    const mayWait = () =>
      this.#now() < end && !signal?.aborted && cureFor(this.#failure) !== undefined && !isPsLost();
    for (let attempt = 0; attempt < attempts || mayWait(); attempt++) {
      if (attempt === attempts) this.#logPatience(session, step, patienceMs);
      const waitMs =
        attempt < attempts ? backoffMs(attempt, LAST_RETRY) : backoffMs(attempt - attempts, PATIENT_RETRY);
      if (attempt > 0) await sleep(waitMs, attempt < attempts ? undefined : signal).catch(() => {});
      if (attempt >= attempts && signal?.aborted) break;
      // No later save can use another name, so the last attempt may write to the store only.
      const mayHide = attempt + 1 >= attempts;
      if (await this.save(session, step ?? this.#savedStep ?? 0, { mayHide, isLast: true, hold }))
        return true;
      if (isStepAlarm(this.#failure)) break;
    }
    const newest = this.#savedStep === undefined ? 'an earlier run, if any' : `step ${this.#savedStep}`;
    this.#options.log(
      `the last checkpoint${ofStep(step)} could not be saved; the newest is of ${newest}; later steps are lost`,
      'error',
    );
    return false;
  }

  #logPatience({ server }: TrainingRunner, step: number | undefined, ms: number): void {
    const who = server ? `${server.task.task} and the ps keep` : 'This process keeps';
    this.#options.log(
      `the last checkpoint${ofStep(step)} is not saved yet. ${who} its values in memory; the save is tried again for ${Math.ceil(ms / 60_000)} min: ${cureFor(this.#failure)}; Ctrl-C gives up and loses them${hintLineOf(this.#failure)}`,
      'error',
    );
  }

  /** Removes old checkpoints, as a save would have. */
  async tidy(session: TrainingRunner): Promise<void> {
    const { saver, path, log } = this.#options;
    await saver()
      .tidy?.(session, dirname(path))
      .catch((error: unknown) =>
        log(`old checkpoints could not be removed: ${describeError(error)}`, 'warn'),
      );
  }
}

/** What ends a failure of saves, if time or a user can; undefined if only a change of the program or its place can. */
function cureFor(failure: unknown): string | undefined {
  if (isShoalError(failure, 'SHOAL_NO_SPACE')) return 'free disk space';
  const { code } = isSystemError(failure) ? failure : {};
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'free disk space';
  if (code === 'EIO') return 'make the disk work';
  if (isShoalError(failure, 'SHOAL_UNREACHABLE')) return 'make the tasks reach each other';
  if (isShoalError(failure, 'SHOAL_TIMEOUT')) return 'wait until all tasks answer';
  return undefined;
}

const ofStep = (step: number | undefined): string => (step === undefined ? '' : `, of step ${step},`);

export interface LastStepOptions {
  /** Aborted by a stop: then the other workers are not waited for. */
  readonly signal: AbortSignal | undefined;
  readonly log: Log;
}

/** Waits for the last steps of the other workers and stops updates. */
export async function waitForLastSteps(
  { server }: TrainingRunner,
  { signal, log }: LastStepOptions,
): Promise<void> {
  if (!server) return;
  const service = server.checkpoints;
  if (!signal?.aborted) {
    // Assumes that the steps of the others take as long as those of this task.
    const timeoutMs = Math.max(LAST_STEPS_MS, service.pauses.gate.times.pauseMs);
    await service.lastSteps.ofOthers({ timeoutMs, signal, log });
  }
  await service.pauses.stopUpdates();
}

/** The global step after training has ended; undefined if it cannot be read. `seen`: the last one seen by this task. */
export async function readLastStep(
  session: TrainingRunner,
  seen: number,
  log: Log,
): Promise<number | undefined> {
  const { server } = session;
  if (!server) return seen;
  // A ps leaves when all steps are paused and saved: there are no later ones.
  if (server.psTasks.some((id) => server.task.member(id)?.status === 'left')) return seen;
  try {
    return (await readGlobalStep(session, { timeoutMs: READ_STEP_MS })) ?? seen;
  } catch (error) {
    log(`the last step could not be read: ${messageOf(error)}; saving it again${hintLineOf(error)}`, 'warn');
    return undefined;
  }
}

/** The step in a checkpoint path. Other workers may have trained between the read of the step and the snapshot. */
function stepOf(path: string): number | undefined {
  const [, digits] = /-(\d+)$/.exec(path) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
