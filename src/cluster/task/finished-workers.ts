/**
 * What workers report about their end. No task waits for a worker that has finished after its process ended, whether or
 * not its leave message arrived. A worker that is preempted leaves although training is not over: it is expected back.
 */
import * as v from 'valibot';
import { checked } from '../agent/wire.js';
import type { Identity } from '../membership/map.js';
import { isPresent } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from './cluster-task.js';

const REQUEST = 'train-over';
const TIMEOUT_MS = 5000;
const Report = v.object({ finished: v.boolean(), returns: v.optional(v.boolean()) });

export class FinishedWorkers {
  readonly #task: ClusterTask;
  readonly #finished = new Set<string>();
  readonly #returning = new Set<string>();
  readonly #listeners = new Set<(task: TaskId) => void>();

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onRequest(REQUEST, (payload, { from }) => {
      const { finished, returns = false } = checked(Report, payload, 'request');
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

  /** Whether this process has reported that it leaves and another one will continue its work. */
  returns(member: Identity): boolean {
    return this.#returning.has(keyOf(member));
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
