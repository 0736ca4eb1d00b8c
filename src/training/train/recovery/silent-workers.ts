/**
 * Workers whose heartbeats no longer arrive here, but whose processes were not seen to end. Such a worker may be
 * unreachable from this task only, and still train: a snapshot without it would be inconsistent. It counts as paused
 * when it is unreachable from all ps too, because then it cannot change variables.
 */

import * as v from 'valibot';
import { sleep } from '../../../base/async/deadline.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import type { Identity } from '../../../distributed/cluster/membership/map.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { parseTaskId, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';

const REACHABLE = 'train-reachable';
const ASK_MS = 2000;
const AGAIN_MS = 250;
/** Other tasks may detect a silent worker somewhat later. */
const PATIENCE_MS = 5000;
const Question = v.object({ task: v.pipe(v.string(), v.maxLength(100)), incarnation: v.number() });
const Answer = v.object({ isReachable: v.boolean() });

export class SilentWorkers {
  readonly #task: ClusterTask;
  readonly #silent = new Map<string, Identity>();
  readonly #listeners = new Set<(task: string) => void>();
  readonly #stop: () => void;

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onOrder(REACHABLE, (payload) => {
      const asked = validated(Question, payload, 'order');
      const known = task.members().find((member) => member.task === asked.task);
      return { isReachable: known?.incarnation === asked.incarnation && isPresent(known.status) };
    });
    this.#stop = task.events.on('*', (event) => {
      if (event.type === 'lost' && event.why === 'silent' && trains(event.member.task)) {
        this.#silent.set(event.member.task, event.member);
        for (const listener of [...this.#listeners]) listener(event.member.task);
      } else if (event.type === 'lost' || event.type === 'left' || event.type === 'back') {
        this.#silent.delete(event.member.task);
      }
    });
  }

  has(task: string): boolean {
    return this.#silent.has(task);
  }

  /** Resolves when the worker becomes silent. */
  becomesSilent(task: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.has(task)) return resolve();
      const end = () => {
        this.#listeners.delete(listener);
        signal.removeEventListener('abort', end);
      };
      const listener = (silent: string) => {
        if (silent !== task) return;
        end();
        resolve();
      };
      this.#listeners.add(listener);
      signal.addEventListener('abort', end, { once: true });
    });
  }

  /** Resolves when no ps reaches any silent worker; rejects when one still does after the time to detect a silence. */
  async allUnreachable(signal: AbortSignal | undefined, log: Log): Promise<void> {
    for (const worker of [...this.#silent.keys()]) {
      const patience = AbortSignal.timeout(PATIENCE_MS);
      try {
        await this.unreachable(worker, signal ? AbortSignal.any([signal, patience]) : patience, log);
      } catch (error) {
        if (!this.has(worker)) continue;
        if (!patience.aborted || signal?.aborted) throw error;
        throw new ShoalError('SHOAL_UNREACHABLE', `${worker} is unreachable and may still be training`, {
          hint: 'Check the network between it and the chief, or stop it.',
        });
      }
    }
  }

  /** Resolves when no ps reaches the worker; rejects when it comes back, or when the signal aborts. */
  async unreachable(worker: string, signal: AbortSignal, log: Log): Promise<void> {
    for (let logged = ''; ; ) {
      const identity = this.#silent.get(worker);
      if (!identity)
        throw new ShoalError('SHOAL_UNREACHABLE', `${worker} came back while it was being paused`);
      const ps = await this.#reachableFrom(identity, signal);
      if (ps.length === 0) return;
      const line = `${worker} is unreachable from here, but ${ps.join(', ')} may reach it: a snapshot without it could be inconsistent`;
      if (line !== logged) log(line);
      logged = line;
      await sleep(AGAIN_MS, signal);
    }
  }

  async #reachableFrom(
    { task: worker, incarnation }: Identity,
    signal: AbortSignal,
  ): Promise<readonly TaskId[]> {
    const ps = this.#task
      .members()
      .filter(({ task, status }) => parseTaskId(task).job === 'ps' && status !== 'dead' && status !== 'left');
    const isReachable = await Promise.all(
      ps.map(async ({ task }) => {
        try {
          const question = { task: worker, incarnation };
          const answer = await this.#task.order(task, REACHABLE, question, { timeoutMs: ASK_MS, signal });
          return validated(Answer, answer, 'answer').isReachable;
        } catch (error) {
          // A ps without a checkpoint service does not know this order.
          if (isShoalError(error, 'SHOAL_NOT_FOUND')) return false;
          signal.throwIfAborted();
          return true;
        }
      }),
    );
    return ps.filter((_, i) => isReachable[i]).map(({ task }) => task);
  }

  close(): void {
    this.#stop();
  }
}
