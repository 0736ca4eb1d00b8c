/**
 * The pauses of a task's training steps for snapshots: of this task, on the chief's orders, and on the chief those of all
 * workers. `gate` blocks the steps of this task.
 */
import * as v from 'valibot';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { PauseControl, PauseOptions } from '../../../distributed/checkpoint/protocol/save.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { compareIdentity, type Identity } from '../../../distributed/cluster/membership/map.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import { SilentWorkers } from '../recovery/silent-workers.js';
import { StepGate } from '../recovery/steps/step-gate.js';

const PAUSE = 'train-pause';
const RESUME = 'train-resume';
const Token = v.pipe(v.string(), v.maxLength(100));
const PauseSchema = v.object({
  leaseMs: v.number(),
  atStep: v.optional(v.number()),
  token: Token,
  holds: v.optional(v.boolean()),
});
const ResumeSchema = v.object({ token: Token });
/** The number of ended pauses to remember, for orders that arrive late. */
const REMEMBERED = 100;

export class StepPauses {
  /** Pauses the training steps of this task for a snapshot. */
  readonly gate = new StepGate();
  readonly #task: ClusterTask;
  readonly #log: Log;
  /** Whether this task makes no more steps: it has nothing to pause. */
  readonly #isOver: () => boolean;
  readonly #silent: SilentWorkers;
  readonly #unwatchChief: () => void;
  /** The step at which synchronous training can pause. Undefined for asynchronous training. */
  #nextPause: (() => Promise<number>) | undefined;
  #stopSteps: (() => Promise<void>) | undefined;
  #hasStoppedUpdates = false;
  /** The process that requested each pause of this task, by token, and the tokens of ended pauses. */
  readonly #pausedBy = new Map<string, Identity>();
  readonly #ended = new Set<string>();

  constructor(task: ClusterTask, isOver: () => boolean, log: Log) {
    this.#task = task;
    this.#isOver = isOver;
    this.#log = log;
    this.#silent = new SilentWorkers(task);
    task.onOrder(PAUSE, async (payload, { from, work }) => {
      const pause = validated(PauseSchema, payload, 'order');
      work.signal.addEventListener('abort', () => this.gate.resume(pause.token), { once: true });
      await this.#pause(pause, from);
      return null;
    });
    task.onOrder(RESUME, (payload) => this.#resume(validated(ResumeSchema, payload, 'order').token));
    // The process of a chief that has left takes no snapshot any more. That of one that was replaced is refused by tasks
    // that know of its successor. A process may raise its own incarnation.
    this.#unwatchChief = task.events.on('*', (event) => {
      const isOver = event.type === 'left' || (event.type === 'back' && event.replaced);
      if (!isOver || event.member.task !== task.chief) return;
      for (const [token, by] of this.#pausedBy) {
        const isOfThisOne = event.type === 'back' && by.nonce === event.member.nonce;
        if (!isOfThisOne && compareIdentity(by, event.member) <= 0) this.gate.resume(token);
      }
    });
  }

  /** Whether a worker does not answer, but may train. */
  isSilent(task: TaskId): boolean {
    return this.#silent.has(task);
  }

  /**
   * Steps of synchronous training wait for each other, so all workers pause at the same step, which the chief reads
   * before each pause.
   */
  pauseAt(step: () => Promise<number>): void {
    this.#nextPause = step;
  }

  /** Sets how `stopUpdates` stops synchronous steps. */
  stopStepsBy(stop: () => Promise<void>): void {
    this.#stopSteps = stop;
    // Training may start again, after a loss at its end.
    this.#hasStoppedUpdates = false;
  }

  async #pause(pause: v.InferOutput<typeof PauseSchema>, chief: Identity): Promise<void> {
    // Orders may be reordered: a pause that arrives after its resume must not block steps.
    if (this.#ended.has(pause.token))
      throw new ShoalError('SHOAL_ABORTED', 'The pause was ended before it began');
    if (this.#isOver()) return;
    for (const token of this.#pausedBy.keys()) if (!this.gate.has(token)) this.#pausedBy.delete(token);
    this.#pausedBy.set(pause.token, chief);
    await this.gate.pause(pause);
  }

  /** Ends this pause only: a late order must not let steps run during the next snapshot. */
  #resume(token: string): void {
    this.#ended.add(token);
    for (const old of this.#ended) {
      if (this.#ended.size <= REMEMBERED) break;
      this.#ended.delete(old);
    }
    this.gate.resume(token);
  }

  /** Pauses all workers; on the chief. */
  readonly control: PauseControl = {
    pauseTimeoutMs: () => this.gate.times.pauseMs,
    workers: () =>
      this.#hasStoppedUpdates
        ? []
        : this.#task
            .members()
            .filter(({ task, status }) => trains(task) && (isPresent(status) || this.#silent.has(task)))
            .map(({ task }) => task),
    check: async ({ signal }) => {
      if (!this.#hasStoppedUpdates) await this.#silent.allUnreachable(signal, this.#log);
    },
    atStep: async () => this.#nextPause?.(),
    pause: async (worker, { signal, ...options }) => {
      const { signal: over, abort } = linked(signal);
      try {
        const silent = this.#silent
          .becomesSilent(worker, over)
          .then(() => this.#silent.unreachable(worker, over, this.#log));
        const asked = this.#ask(worker, { ...options, signal: over }).catch((error: unknown) => {
          if (!this.#silent.has(worker)) throw error;
          return silent;
        });
        await Promise.race([asked, silent]);
      } finally {
        abort();
      }
    },
    resume: async (worker, token) => {
      if (worker === this.#task.task) return this.#resume(token);
      await this.#task.order(worker as TaskId, RESUME, { token }, { timeoutMs: 5000, again: true });
    },
  };

  /** Requests a pause from a worker, and waits until it has paused. */
  async #ask(worker: string, { signal, ...request }: PauseOptions): Promise<void> {
    const { leaseMs } = request;
    if (worker === this.#task.task) return this.#pause(request, this.#task.identity);
    try {
      await this.#task.order(worker as TaskId, PAUSE, request, { timeoutMs: leaseMs, signal });
    } catch (error) {
      // A task that does not know this order is starting or leaving: it does not train.
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
    }
  }

  /**
   * Called before the last checkpoint. In synchronous training only the chief updates variables. Once it has stopped,
   * there is nothing to pause, and no worker could reach a later step to pause at.
   */
  async stopUpdates(): Promise<void> {
    if (this.#nextPause === undefined) return;
    await this.#stopSteps?.();
    this.#hasStoppedUpdates = true;
  }

  close(): void {
    this.#unwatchChief();
    this.#silent.close();
  }
}

/** A signal that aborts with another one, or when `abort` is called. */
function linked(signal: AbortSignal): { readonly signal: AbortSignal; readonly abort: () => void } {
  const own = new AbortController();
  return { signal: AbortSignal.any([signal, own.signal]), abort: () => own.abort() };
}
