/**
 * The end of training. The last checkpoint must contain the last steps of all workers, and have its copies on their
 * disks, where the checkpoint that it replaces is removed. So a worker that makes no more steps reports it, and stays
 * until the chief has saved and finished, or has left.
 *
 * The chief carries out the exports of all workers. So it stays until the other workers have finished.
 */

import { firstLineOf, isShoalError } from '../../../../base/errors/errors.js';
import type { Log } from '../../../../base/text/log.js';
import { isPresent, type Member } from '../../../../distributed/cluster/membership/types.js';
import { type TaskId, trains } from '../../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../../distributed/cluster/task/cluster-task.js';
import type { FinishedWorkers } from '../../../../distributed/cluster/task/finished-workers.js';

/** How long a worker stays for the chief's last checkpoint; the chief may train for much longer. */
const STAY_MS = 60_000;
/** How long the chief waits for running exports; an export without progress fails long before. */
const EXPORTS_MS = 24 * 60 * 60_000;
/** Reports are polled: they are not membership events. */
const LOOK_MS = 100;

export interface LastStepsOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly log: Log;
}

export interface FinishOptions {
  readonly signal?: AbortSignal;
  readonly log: Log;
  /** Whether the chief stays for the exports of other workers, and a worker for the chief's last checkpoint. */
  readonly stay: boolean;
  /** Default: a minute. */
  readonly timeoutMs?: number;
}

/** The chief of synchronous training, without which the others make no steps. */
export interface Lead {
  /** Called when the chief begins to wait for the last steps of the others, and makes none itself. */
  onWaiting(): void;
  /** The number of steps made: while it rises, the chief waits. */
  steps(): number;
}

export class LastSteps {
  readonly #task: ClusterTask;
  readonly #finished: FinishedWorkers;
  readonly #exporters: () => readonly TaskId[];
  #isOver = false;
  /** When the chief began to wait for the others at the end. */
  #waitingSince: number | undefined;
  /** Whether the chief has stopped to wait for the steps of the others. */
  #hasGivenUp = false;
  #lead: Lead | undefined;

  /** @param exporters the tasks whose exports this task is carrying out. */
  constructor(
    { task, finished }: { readonly task: ClusterTask; readonly finished: FinishedWorkers },
    exporters: () => readonly TaskId[],
  ) {
    this.#task = task;
    this.#finished = finished;
    this.#exporters = exporters;
  }

  /** Whether this task makes no more steps; a pause does not wait for it then. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether this task, as chief, makes no more steps itself, and waits for those of the others. */
  get isWaiting(): boolean {
    return this.#waitingSince !== undefined;
  }

  get leads(): boolean {
    return this.#lead !== undefined;
  }

  /** This task leads synchronous steps; returns the function that ends this. */
  lead(lead: Lead): () => void {
    this.#lead = lead;
    return () => {
      if (this.#lead === lead) this.#lead = undefined;
    };
  }

  /** This task trains, possibly not for the first time. */
  async begin(): Promise<void> {
    this.#waitingSince = undefined;
    this.#hasGivenUp = false;
    if (!this.#isOver) return;
    this.#isOver = false;
    await this.#finished.report(false);
  }

  /** The other workers that are present and have not reported the end of training. */
  readonly #training = (members: readonly Member[]): readonly TaskId[] =>
    members
      .filter((member) => member.task !== this.#task.task && trains(member.task) && isPresent(member.status))
      .filter((member) => !this.#finished.has(member))
      .map((member) => member.task);

  /**
   * Waits until no other worker trains, at most `timeoutMs`; in synchronous training at most `timeoutMs` after each step.
   * The signal ends the wait without an error.
   */
  async ofOthers({ timeoutMs, signal, log }: LastStepsOptions): Promise<void> {
    if (this.#hasGivenUp) return;
    const task = this.#task;
    this.#waitingSince ??= performance.now();
    this.#lead?.onWaiting();
    const waitsFor = this.#training(task.members());
    if (waitsFor.length > 0)
      log(`waiting for the last steps of ${waitsFor.join(', ')}, at most ${Math.ceil(timeoutMs / 1000)} s`);
    let made: number | undefined;
    do {
      made = this.#lead?.steps();
      try {
        await task.waitFor(this.#training, { timeoutMs, signal, progressMs: LOOK_MS });
        return;
      } catch (error) {
        if (signal?.aborted) return;
        if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      }
    } while (made !== this.#lead?.steps());
    this.#hasGivenUp = true;
    const late = this.#training(task.members()).join(', ');
    log(
      `${late} did not report the end of training within ${timeoutMs / 1000} s; the last checkpoint may lack steps made there`,
    );
  }

  /**
   * Reports to all tasks that this one makes no more steps, and stays if asked to. Failures are only logged: the
   * training of this task has succeeded.
   */
  async finish(options: FinishOptions): Promise<void> {
    this.#isOver = true;
    const { stay, signal, log, timeoutMs = STAY_MS } = options;
    const task = this.#task;
    const { chief } = task;
    const failures = await this.#finished.report(true);
    if (!stay || signal?.aborted || chief === undefined) return;
    if (chief === task.task) return this.#stayForExports(options);
    const isChiefTraining = (members: readonly Member[]): readonly TaskId[] =>
      members
        .filter((member) => member.task === chief && isPresent(member.status) && !this.#finished.has(member))
        .map((member) => member.task);
    const hasFailed = (member: Member | undefined) =>
      member !== undefined && this.#finished.stopped(member) === 'failed';
    if (hasFailed(task.member(chief)))
      log(`${chief} has failed: steps that it has not saved are made again when it is started again`, 'warn');
    if (isChiefTraining(task.members()).length === 0) return;
    const unreported = failures.get(chief);
    if (unreported !== undefined) {
      return log(`the end of training could not be reported to ${chief}: ${firstLineOf(unreported)}`);
    }
    log(`staying for the last checkpoint of ${chief}, at most ${Math.ceil(timeoutMs / 1000)} s`);
    try {
      await task.waitFor(isChiefTraining, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch {
      if (!signal?.aborted) log(`${chief} has not finished after ${timeoutMs / 1000} s; not staying longer`);
    }
  }

  /** Waits until running exports end, and at most `timeoutMs` for workers that may still start one. */
  async #stayForExports({ signal, log, timeoutMs = STAY_MS }: FinishOptions): Promise<void> {
    const task = this.#task;
    this.#waitingSince ??= performance.now();
    const end = this.#waitingSince + timeoutMs;
    const isLate = () => performance.now() >= end;
    let reported = '';
    const waitsFor = (members: readonly Member[]): readonly TaskId[] => {
      const exporters = this.#exporters();
      const names = exporters.join(', ');
      if (names !== '' && names !== reported) log(`staying for the export of ${names}`);
      reported = names;
      return exporters.length > 0 || isLate() ? exporters : this.#training(members);
    };
    const training = this.#training(task.members());
    if (training.length > 0) {
      const seconds = Math.max(0, Math.ceil((end - performance.now()) / 1000));
      log(
        `waiting for the end of training of ${training.join(', ')}, which may export, at most ${seconds} s`,
      );
    }
    try {
      await task.waitFor(waitsFor, { timeoutMs: EXPORTS_MS, signal, progressMs: LOOK_MS });
    } catch (error) {
      if (!signal?.aborted) log(`stopped waiting for the exports of other workers: ${firstLineOf(error)}`);
      return;
    }
    const late = this.#training(task.members()).join(', ');
    if (late !== '') log(`${late} did not report the end of training in time; an export there will fail`);
  }
}
