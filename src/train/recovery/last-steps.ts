/**
 * The end of training. The last checkpoint is to have the last steps of all workers, and to be on their disks as the ones
 * before it were; the one that it makes go is to go from there too. So a worker that makes no more steps reports it, and
 * stays until the chief, which saves then, has left or has finished too.
 *
 * The chief carries out the exports of all workers. So it stays, when it has finished, until the others have: one of them
 * may still export.
 */

import { isThere, type Member } from '../../cluster/membership/types.js';
import { type TaskId, trains } from '../../cluster/spec/task-id.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';
import type { FinishedWorkers } from '../../cluster/task/finished-workers.js';
import { firstLineOf, isShoalError } from '../../errors/errors.js';

/** How long a worker stays for the chief's last checkpoint: the chief may train for much longer. */
const STAY_MS = 60_000;
/** How long the chief waits for exports under way: one that makes no progress fails long before. */
const EXPORTS_MS = 24 * 60 * 60_000;
/** A report is no event of the membership: it is looked for. */
const LOOK_MS = 100;

export interface LastStepsOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly log: (line: string) => void;
}

export interface FinishOptions {
  readonly signal?: AbortSignal | undefined;
  readonly log: (line: string) => void;
  /** Whether to stay: the chief for exports of the other workers, any other task for the chief's last checkpoint. */
  readonly stay: boolean;
  /** Default: a minute. */
  readonly timeoutMs?: number;
}

export class LastSteps {
  readonly #task: ClusterTask;
  readonly #finished: FinishedWorkers;
  readonly #exporters: () => readonly TaskId[];
  #isOver = false;
  /** When the chief began to wait for the others at the end. */
  #waitingSince: number | undefined;

  /** `exporters`: the tasks whose exports this one is carrying out. */
  constructor(
    { task, finished }: { readonly task: ClusterTask; readonly finished: FinishedWorkers },
    exporters: () => readonly TaskId[],
  ) {
    this.#task = task;
    this.#finished = finished;
    this.#exporters = exporters;
  }

  /** Whether this task makes no more steps: a pause need not wait for it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** This task trains, perhaps for a second time. */
  async begin(): Promise<void> {
    if (!this.#isOver) return;
    this.#isOver = false;
    this.#waitingSince = undefined;
    await this.#finished.report(false);
  }

  /** The other workers that are there and have not reported the end of training. */
  readonly #training = (members: readonly Member[]): readonly TaskId[] =>
    members
      .filter((member) => member.task !== this.#task.task && trains(member.task) && isThere(member.status))
      .filter((member) => !this.#finished.has(member))
      .map((member) => member.task);

  /** Waits until no other worker trains, within the time given. */
  async ofOthers({ timeoutMs, signal, log }: LastStepsOptions): Promise<void> {
    const task = this.#task;
    this.#waitingSince ??= performance.now();
    const waitsFor = this.#training(task.members());
    if (waitsFor.length > 0)
      log(`waiting for the last steps of ${waitsFor.join(', ')}, at most ${timeoutMs / 1000} s`);
    try {
      await task.waitFor(this.#training, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      const late = this.#training(task.members()).join(', ');
      log(
        `${late} did not report the end of training within ${timeoutMs / 1000} s; the last checkpoint may lack steps made there`,
      );
    }
  }

  /**
   * Makes no more steps, reports it to all, and stays where it is to: the chief for the other workers, any other task for
   * the chief's last checkpoint. What fails here is logged: this task has trained.
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
        .filter((member) => member.task === chief && isThere(member.status) && !this.#finished.has(member))
        .map((member) => member.task);
    if (isChiefTraining(task.members()).length === 0) return;
    const unheard = failures.get(chief);
    if (unheard !== undefined) {
      return log(`${chief} could not be told of the end of training here: ${firstLineOf(unheard)}`);
    }
    log(`staying for the last checkpoint of ${chief}, at most ${timeoutMs / 1000} s`);
    try {
      await task.waitFor(isChiefTraining, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch {
      if (!signal?.aborted) log(`${chief} still trains after ${timeoutMs / 1000} s; not staying longer`);
    }
  }

  /** Waits for exports under way to their end, and for workers that may begin one within the time given. */
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
      if (!signal?.aborted) log(`the exports of other workers were not waited for: ${firstLineOf(error)}`);
      return;
    }
    const late = this.#training(task.members()).join(', ');
    if (late !== '') log(`${late} did not report the end of training in time; an export there will fail`);
  }
}
