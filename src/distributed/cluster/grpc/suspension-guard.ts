/**
 * A process that was suspended (stopped, swapped out) may have been replaced meanwhile. With the direct engine the ps
 * refuse its runs. TensorFlow's servers know no incarnations: with the engine grpc the process itself asks a ps before
 * its next run. A suspension between this check and TensorFlow's call is not noticed.
 */
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { REPLACED } from '../membership/fence.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';

const BEAT_MS = 250;
const ASK_MS = 2000;

export class SuspensionGuard {
  readonly #task: ClusterTask;
  readonly #ps: readonly TaskId[];
  readonly #limitMs: number;
  readonly #timer: NodeJS.Timeout;
  #beat = performance.now();
  #isDoubtful = false;
  #asking: Promise<void> | undefined;

  /** @param limitMs the longest delay that counts as running without a break. */
  constructor(task: ClusterTask, ps: readonly TaskId[], limitMs: number) {
    this.#task = task;
    this.#ps = ps;
    this.#limitMs = limitMs;
    this.#timer = setInterval(() => this.#check(), BEAT_MS).unref();
  }

  /** Rejects if this process was replaced, or if that is not known after a suspension. Undefined: no doubt. */
  confirm(): Promise<void> | undefined {
    this.#check();
    // A run that begins while others wait for the answer waits for it too.
    if (this.#asking === undefined && this.#isDoubtful) {
      this.#asking = this.#ask().finally(() => {
        this.#asking = undefined;
      });
    }
    return this.#asking;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    const now = performance.now();
    if (now - this.#beat > BEAT_MS + this.#limitMs) this.#isDoubtful = true;
    this.#beat = now;
  }

  /** A successor has contacted every ps before its first run, so the answer of one ps is enough. */
  async #ask(): Promise<void> {
    const { task: self } = this.#task;
    // A suspension while this waits makes it doubtful again.
    this.#isDoubtful = false;
    try {
      await this.#answers(self);
    } catch (error) {
      this.#isDoubtful = true;
      throw error;
    }
    if (this.#isDoubtful) await this.#ask();
  }

  async #answers(self: TaskId): Promise<void> {
    const answers = await Promise.allSettled(
      this.#ps.map((ps) => this.#task.confirmCurrent(ps, { timeoutMs: ASK_MS })),
    );
    const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
    const replaced = failures.find((error) => isShoalError(error, 'SHOAL_FORBIDDEN'));
    if (replaced) throw replaced;
    if (failures.length === answers.length && failures.length > 0) {
      throw new ShoalError(
        'SHOAL_TF_UNAVAILABLE',
        `${self} was suspended, and no ps answers whether it ${REPLACED}: ${firstLineOf(failures[0])}`,
        { task: self },
      );
    }
    this.#check();
  }
}
