/**
 * The tasks whose disks may hold checkpoints, and how a restore waits for them. The newest checkpoint is known only
 * when all tasks have answered, and a restore waits for a task that holds it before it uses an older one. All waits of
 * one restore share a deadline. A task that missed the deadline is not waited for again until it has come back, so a
 * task that is gone for good delays only one restore.
 *
 * This cannot deadlock: the agents of the other tasks serve blobs from their start.
 */

import { sleep } from '../../../base/async/deadline.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { HolderWait } from '../../../distributed/checkpoint/protocol/restore.js';
import type { Survey } from '../../../distributed/checkpoint/reading/catalog.js';
import type { Member } from '../../../distributed/cluster/membership/types.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import { parseTaskId, type TaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { FinishedWorkers } from '../../../distributed/cluster/task/finished-workers.js';
import { placeOf } from '../../../distributed/cluster/task/peers.js';
import type { Store } from '../../../distributed/store/store.js';

export interface HoldersOptions {
  readonly server: Pick<ClusterServer, 'spec' | 'task'> & {
    readonly finished: Pick<FinishedWorkers, 'isAssumed'>;
  };
  readonly store: Pick<Store, 'stat'>;
  readonly waitMs: number;
  readonly log: Log;
}

/** The checkpoints that a survey found, and who did not answer. */
type Found = Pick<Survey, 'manifests' | 'unreadable' | 'unanswered'>;

const POLL_MS = 250;
const ASK_MS = 3000;
/** Shorter waits are not logged. */
const QUIET_MS = 3000;
const PROGRESS_MS = 10_000;

export class CheckpointHolders {
  readonly #options: HoldersOptions;
  /** Tasks that missed a deadline, and the last known incarnation of each. */
  readonly #givenUp = new Map<TaskId, number | undefined>();
  #deadline = 0;

  constructor(options: HoldersOptions) {
    this.#options = options;
  }

  /** A restore begins: its waits end after `waitMs`. */
  begin(): void {
    this.#deadline = performance.now() + this.#options.waitMs;
  }

  /**
   * The tasks whose checkpoints a survey may lack: those that are not alive, and those that did not answer. An
   * evaluator never holds the only copy. A task that left gracefully, or a worker that has finished, is not expected back; if it has the only copy of a
   * file, `wait` waits for it. But if the survey found no checkpoint at all, that task may hold all of them.
   */
  missingFrom({ manifests, unreadable, unanswered }: Found): readonly TaskId[] {
    const { spec, task, finished } = this.#options.server;
    const expected = spec.tasks.map(({ id }) => id);
    const isEmpty = manifests.length + unreadable.length === 0;
    const hasEnded = (id: TaskId) =>
      this.#member(id)?.status === 'left' || (!this.#isAlive(id) && finished.isAssumed(id));
    const mayHold = (id: TaskId) => !hasEnded(id) || (isEmpty && expected.includes(id));
    const others = task.members().flatMap((member) => (member.status === 'alive' ? [member.task] : []));
    return [...new Set([...expected, ...others])].filter(
      (id) =>
        parseTaskId(id).job !== 'evaluator' &&
        mayHold(id) &&
        (!this.#isAlive(id) || unanswered.includes(placeOf(id))),
    );
  }

  /** Records which tasks answered a survey; returns whether any other task is still worth waiting for. */
  shouldWait(survey: Found): boolean {
    const missing = this.missingFrom(survey);
    for (const task of this.#givenUp.keys())
      if (this.#isAlive(task) && !missing.includes(task)) this.#givenUp.delete(task);
    return missing.some((task) => !this.#isGivenUp(task));
  }

  /** Waits until the tasks missing from a survey answer, or the deadline passes. */
  async waitForMissing(survey: Found, signal: AbortSignal | undefined): Promise<void> {
    const { server, log } = this.#options;
    if (this.#leftMs <= 0) return this.#giveUp(this.missingFrom(survey));
    const absent = () => this.missingFrom({ ...survey, unanswered: [] });
    try {
      await server.task.waitFor(() => absent().filter((task) => !this.#isGivenUp(task)), {
        timeoutMs: this.#leftMs,
        signal,
        quietMs: QUIET_MS,
        progressMs: PROGRESS_MS,
        onProgress: (line) => log(`looking for the newest checkpoint: ${line}`),
      });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      this.#giveUp(absent());
    }
    const why = 'the newest checkpoint is not known';
    while (await this.wait(survey.unanswered, { why, signal }));
  }

  readonly wait: HolderWait = async (places, { why, signal }) => {
    const { log, waitMs } = this.#options;
    const begun = performance.now();
    const before = await this.#unreachable(places);
    let now = before;
    for (let loggedMs = QUIET_MS - PROGRESS_MS; now.length === before.length; ) {
      if (before.length === 0) return false;
      if (this.#leftMs <= 0) {
        log(`${why}: ${before.join(', ')} did not come back within ${Math.round(waitMs / 1000)} s`);
        this.#giveUp(before);
        return false;
      }
      const elapsedMs = performance.now() - begun;
      if (elapsedMs >= loggedMs + PROGRESS_MS) {
        loggedMs = elapsedMs;
        log(`${why}; waiting for ${now.join(', ')} (${Math.round(this.#leftMs / 1000)} s left)`);
      }
      await sleep(Math.min(POLL_MS, this.#leftMs), signal);
      const still = new Set(await this.#unreachable(places));
      now = before.filter((task) => still.has(task));
    }
    return true;
  };

  /** The tasks at these places that are not alive, or do not answer. */
  async #unreachable(places: readonly string[]): Promise<readonly TaskId[]> {
    const { server, store } = this.#options;
    const known = new Map(
      [...server.spec.tasks.map(({ id }) => id), ...server.task.members().map(({ task }) => task)].map(
        (task) => [placeOf(task), task],
      ),
    );
    const each = await Promise.all(
      places.map(async (place) => {
        const task = known.get(place);
        // A task that is no longer part of the cluster will not come; a checkpoint of one process names no task.
        if (task === undefined || task === server.task.task || this.#isGivenUp(task)) return [];
        if (!this.#isAlive(task)) return [task];
        const answers = await store.stat('any-blob', { place, timeoutMs: ASK_MS }).then(
          () => true,
          (error: unknown) =>
            !isShoalError(error, 'SHOAL_UNREACHABLE') && !isShoalError(error, 'SHOAL_TIMEOUT'),
        );
        return answers ? [] : [task];
      }),
    );
    return each.flat();
  }

  get #leftMs(): number {
    return Math.max(0, this.#deadline - performance.now());
  }

  #member(task: TaskId): Member | undefined {
    return this.#options.server.task.members().find((member) => member.task === task);
  }

  #isAlive(task: TaskId): boolean {
    return this.#member(task)?.status === 'alive';
  }

  #giveUp(tasks: readonly TaskId[]): void {
    for (const task of tasks) this.#givenUp.set(task, this.#member(task)?.incarnation);
  }

  #isGivenUp(task: TaskId): boolean {
    return this.#givenUp.has(task) && this.#givenUp.get(task) === this.#member(task)?.incarnation;
  }
}
