/**
 * Workers that have reported the end of their training. No task waits for such a worker after its process ended,
 * whether or not its leave message arrived.
 */
import * as v from 'valibot';
import { checked } from '../agent/wire.js';
import type { Identity } from '../membership/map.js';
import { isPresent } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from './cluster-task.js';

const REQUEST = 'train-over';
const TIMEOUT_MS = 5000;
const Report = v.object({ finished: v.boolean() });

export class FinishedWorkers {
  readonly #task: ClusterTask;
  readonly #finished = new Set<string>();
  readonly #listeners = new Set<(task: TaskId) => void>();

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onRequest(REQUEST, (payload, { from }) => {
      if (checked(Report, payload, 'request').finished) {
        this.#finished.add(keyOf(from));
        for (const listener of this.#listeners) listener(from.task);
      } else this.#finished.delete(keyOf(from));
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

  /** Reports to every running task. Returns the failures by task. */
  async report(finished: boolean): Promise<ReadonlyMap<TaskId, unknown>> {
    const task = this.#task;
    const failures = new Map<TaskId, unknown>();
    const others = task.members().filter((member) => member.task !== task.task && isPresent(member.status));
    const reports = others.map((member) =>
      task
        .request(member.task, REQUEST, { finished }, { timeoutMs: TIMEOUT_MS })
        .catch((error: unknown) => failures.set(member.task, error)),
    );
    await Promise.all(reports);
    return failures;
  }
}

const keyOf = ({ task, incarnation, nonce }: Identity): string => `${task} ${incarnation} ${nonce}`;
