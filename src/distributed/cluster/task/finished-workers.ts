/**
 * What workers report about their end. No task waits for a worker that has finished after its process ended, whether or
 * not its leave message arrived. A worker that is preempted leaves although training is not over: it is expected back.
 */
import * as v from 'valibot';
import { validated } from '../agent/wire.js';
import type { Identity } from '../membership/map.js';
import { isPresent } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from './cluster-task.js';

const REQUEST = 'train-over';
const TIMEOUT_MS = 5000;
const Report = v.object({
  finished: v.boolean(),
  returns: v.optional(v.boolean()),
  stopped: v.optional(v.picklist(['interrupted', 'failed'])),
  begun: v.optional(v.boolean()),
});

/** How a worker ended before the end of training, if not by a preemption: stopped by its user, or by an error. */
export type Stopped = 'interrupted' | 'failed';

export class FinishedWorkers {
  readonly #task: ClusterTask;
  readonly #finished = new Set<string>();
  readonly #returning = new Set<string>();
  readonly #begun = new Set<string>();
  readonly #stopped = new Map<string, Stopped>();
  readonly #assumed = new Set<TaskId>();
  readonly #listeners = new Set<(task: TaskId) => void>();
  #hasReportedEnd = false;

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onRequest(REQUEST, (payload, { from }) => {
      const { finished, returns = false, stopped, begun } = validated(Report, payload, 'request');
      if (begun) {
        this.#begun.add(keyOf(from));
        this.#stopped.delete(keyOf(from));
        return null;
      }
      if (stopped) this.#stopped.set(keyOf(from), stopped);
      mark(this.#finished, from, finished);
      mark(this.#returning, from, returns);
      if (finished) for (const listener of this.#listeners) listener(from.task);
      return null;
    });
  }

  /** Calls `listener` with each worker that reports the end of its training; returns the function that ends this. */
  onFinished(listener: (task: TaskId) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether this process has reported that it runs no more steps. */
  has(member: Identity): boolean {
    return this.#finished.has(keyOf(member));
  }

  /** Records that workers finished in processes that this task has not seen, and are not started again. */
  assume(workers: readonly TaskId[]): void {
    for (const task of workers) this.#assumed.add(task);
  }

  /** Whether this worker is not expected back, although no process of it has left since this task started. */
  isAssumed(task: TaskId): boolean {
    return this.#assumed.has(task);
  }

  /** Whether this process has reported that it leaves and another one will continue its work. */
  returns(member: Identity): boolean {
    return this.#returning.has(keyOf(member));
  }

  /** How this process has ended before the end of training; undefined if it has not reported that. */
  stopped(member: Identity): Stopped | undefined {
    return this.#stopped.get(keyOf(member));
  }

  /** Whether this process has reported that it trains. */
  hasBegun(member: Identity): boolean {
    return this.#begun.has(keyOf(member));
  }

  /** Whether this task has reported how its training ended. */
  get hasReportedEnd(): boolean {
    return this.#hasReportedEnd;
  }

  /** Reports that the variables have values, and this task trains. */
  async reportBegun(): Promise<ReadonlyMap<TaskId, unknown>> {
    return this.#send({ finished: false, begun: true });
  }

  /** Reports that this task ends before the end of training, and is not started again for that reason. */
  async reportStopped(stopped: Stopped): Promise<ReadonlyMap<TaskId, unknown>> {
    return this.#send({ finished: false, stopped });
  }

  /** Reports to every running task. Returns the failures by task. */
  async report(finished: boolean): Promise<ReadonlyMap<TaskId, unknown>> {
    return this.#send({ finished });
  }

  /** Reports that this task leaves before the end, and will be started again. */
  async reportReturning(): Promise<ReadonlyMap<TaskId, unknown>> {
    return this.#send({ finished: false, returns: true });
  }

  async #send(report: v.InferInput<typeof Report>): Promise<ReadonlyMap<TaskId, unknown>> {
    this.#hasReportedEnd = report.finished || report.returns === true || report.stopped !== undefined;
    const task = this.#task;
    const failures = new Map<TaskId, unknown>();
    const others = task.members().filter((member) => member.task !== task.task && isPresent(member.status));
    const reports = others.map((member) =>
      task
        .request(member.task, REQUEST, report, { timeoutMs: TIMEOUT_MS })
        .catch((error: unknown) => failures.set(member.task, error)),
    );
    await Promise.all(reports);
    return failures;
  }
}

function mark(set: Set<string>, member: Identity, isIn: boolean): void {
  if (isIn) set.add(keyOf(member));
  else set.delete(keyOf(member));
}

const keyOf = ({ task, incarnation, nonce }: Identity): string => `${task} ${incarnation} ${nonce}`;
