/**
 * Workers that this task does not hear any more, though nobody has seen their processes end. Such a worker may
 * be out of this task's reach alone, and train on: a cut that left it out would be torn. It counts as resting when no
 * task that holds variables hears it either, for then it cannot reach them.
 */
import * as v from 'valibot';
import { sleep } from '../../async/deadline.js';
import { checked } from '../../cluster/agent/wire.js';
import type { Identity } from '../../cluster/membership/map.js';
import { isThere } from '../../cluster/membership/types.js';
import { parseTaskId, type TaskId, trains } from '../../cluster/spec/task-id.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';
import { isShoalError, ShoalError } from '../../errors/errors.js';

const HEARS = 'train-hears';
const ASK_MS = 2000;
const AGAIN_MS = 250;
/** Others notice a silence somewhat later. */
const PATIENCE_MS = 5000;
const Question = v.object({ task: v.pipe(v.string(), v.maxLength(100)), incarnation: v.number() });
const Answer = v.object({ hears: v.boolean() });

export class SilentWorkers {
  readonly #task: ClusterTask;
  readonly #silent = new Map<string, Identity>();
  readonly #listeners = new Set<(task: string) => void>();
  readonly #stop: () => void;

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onOrder(HEARS, (payload) => {
      const asked = checked(Question, payload, 'order');
      const known = task.members().find((member) => member.task === asked.task);
      const hears = known !== undefined && known.incarnation === asked.incarnation && isThere(known.status);
      return { hears };
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

  /** Resolves when the worker has fallen silent. */
  falls(task: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.has(task)) return resolve();
      const end = () => {
        this.#listeners.delete(listener);
        signal.removeEventListener('abort', end);
      };
      const listener = (fallen: string) => {
        if (fallen !== task) return;
        end();
        resolve();
      };
      this.#listeners.add(listener);
      signal.addEventListener('abort', end, { once: true });
    });
  }

  /** Resolves when no ps hears any of the silent workers; rejects when one does for longer than it takes to notice. */
  async allUnheard(signal: AbortSignal | undefined, log: (line: string) => void): Promise<void> {
    for (const worker of [...this.#silent.keys()]) {
      const patience = AbortSignal.timeout(PATIENCE_MS);
      try {
        await this.unheard(worker, signal ? AbortSignal.any([signal, patience]) : patience, log);
      } catch (error) {
        if (!this.has(worker)) continue;
        if (!patience.aborted || signal?.aborted) throw error;
        throw new ShoalError('SHOAL_UNREACHABLE', `${worker} is out of reach and may train on`, {
          hint: 'See to the way between it and the chief, or stop it.',
        });
      }
    }
  }

  /** Resolves when no ps hears the worker; rejects when it comes back, and by the signal. */
  async unheard(worker: string, signal: AbortSignal, log: (line: string) => void): Promise<void> {
    for (let told = ''; ; ) {
      const life = this.#silent.get(worker);
      if (!life) throw new ShoalError('SHOAL_UNREACHABLE', `${worker} came back while it was to rest`);
      const who = await this.#heardBy(life, signal);
      if (who.length === 0) return;
      const line = `${worker} is out of reach, but ${who.join(', ')} may hear it: a cut without it could be torn`;
      if (line !== told) log(line);
      told = line;
      await sleep(AGAIN_MS, signal);
    }
  }

  async #heardBy({ task: worker, incarnation }: Identity, signal: AbortSignal): Promise<readonly TaskId[]> {
    const ps = this.#task
      .members()
      .filter(({ task, status }) => parseTaskId(task).job === 'ps' && status !== 'dead' && status !== 'left');
    const hears = await Promise.all(
      ps.map(async ({ task }) => {
        try {
          const question = { task: worker, incarnation };
          const answer = await this.#task.order(task, HEARS, question, { timeoutMs: ASK_MS, signal });
          return checked(Answer, answer, 'answer').hears;
        } catch (error) {
          // Without checkpoints of its own a task knows no such order, and does not say.
          if (isShoalError(error, 'SHOAL_NOT_FOUND')) return false;
          signal.throwIfAborted();
          return true;
        }
      }),
    );
    return ps.filter((_, i) => hears[i]).map(({ task }) => task);
  }

  close(): void {
    this.#stop();
  }
}
