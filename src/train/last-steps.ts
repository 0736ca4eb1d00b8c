/**
 * The end of training. The last checkpoint is to have the last steps of all workers, and to be on their disks as the ones
 * before it were; the one that it makes go is to go from there too. So a worker that makes no more steps reports it, and
 * stays until the chief, which saves then, has left or has finished too.
 */
import type { ClusterTask } from '../cluster/cluster-task.js';
import type { FinishedWorkers } from '../cluster/finished-workers.js';
import { isThere, type Member } from '../cluster/membership-types.js';
import { type TaskId, trains } from '../cluster/task-id.js';
import { isShoalError, messageOf } from '../errors/errors.js';

/** How long a worker stays for the chief's last checkpoint: the chief may train for much longer. */
const STAY_MS = 60_000;
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
  /** Whether to stay for the chief's last checkpoint. */
  readonly stay: boolean;
  /** Default: a minute. */
  readonly timeoutMs?: number;
}

export class LastSteps {
  readonly #task: ClusterTask;
  readonly #finished: FinishedWorkers;
  #isOver = false;

  constructor({ task, finished }: { readonly task: ClusterTask; readonly finished: FinishedWorkers }) {
    this.#task = task;
    this.#finished = finished;
  }

  /** Whether this task makes no more steps: a pause need not wait for it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** This task trains, perhaps for a second time. */
  async begin(): Promise<void> {
    if (!this.#isOver) return;
    this.#isOver = false;
    await this.#finished.report(false);
  }

  /** Waits until no other worker trains, within the time given. */
  async ofOthers({ timeoutMs, signal, log }: LastStepsOptions): Promise<void> {
    const task = this.#task;
    const others = (members: readonly Member[]) =>
      members
        .filter((member) => member.task !== task.task && trains(member.task) && isThere(member.status))
        .filter((member) => !this.#finished.has(member))
        .map((member) => member.task);
    const waitsFor = others(task.members());
    if (waitsFor.length > 0)
      log(`waiting for the last steps of ${waitsFor.join(', ')}, at most ${timeoutMs / 1000} s`);
    try {
      await task.waitFor(others, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      const late = others(task.members()).join(', ');
      log(
        `${late} did not report the end of training within ${timeoutMs / 1000} s; the last checkpoint may lack steps made there`,
      );
    }
  }

  /**
   * Makes no more steps, reports it to all, and, where it is to stay, waits for the chief's last checkpoint. What fails here
   * is logged: this task has trained.
   */
  async finish({ stay, signal, log, timeoutMs = STAY_MS }: FinishOptions): Promise<void> {
    this.#isOver = true;
    const task = this.#task;
    const { chief } = task;
    const failures = await this.#finished.report(true);
    if (!stay || signal?.aborted || chief === undefined || chief === task.task) return;
    const isChiefTraining = (members: readonly Member[]): readonly TaskId[] =>
      members
        .filter((member) => member.task === chief && isThere(member.status) && !this.#finished.has(member))
        .map((member) => member.task);
    if (isChiefTraining(task.members()).length === 0) return;
    const unheard = failures.get(chief);
    if (unheard !== undefined) {
      return log(`${chief} could not be told of the end of training here: ${firstLine(unheard)}`);
    }
    log(`staying for the last checkpoint of ${chief}, at most ${timeoutMs / 1000} s`);
    try {
      await task.waitFor(isChiefTraining, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch {
      if (!signal?.aborted) log(`${chief} still trains after ${timeoutMs / 1000} s; not staying longer`);
    }
  }
}

const firstLine = (error: unknown): string => messageOf(error).split('\n', 1)[0] as string;
