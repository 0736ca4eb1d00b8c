/**
 * The tasks on whose disks checkpoints may be, as a restore waits for them. Which checkpoint is the newest is known when all
 * tasks have answered; and a checkpoint is not given up while a task that holds it is on its way back. Every wait of one
 * restore ends by the same deadline. A task that was waited for in vain is not waited for again until it has been back: one
 * that is gone for good delays one restore and no more.
 *
 * The tasks that are waited for need nothing of the one that waits: their agents serve blobs from their start on.
 */
import { sleep } from '../../async/deadline.js';
import type { Survey } from '../../checkpoint/catalog.js';
import type { HolderWait } from '../../checkpoint/restore.js';
import type { Member } from '../../cluster/membership/types.js';
import type { Server } from '../../cluster/runtime/server.js';
import { parseTaskId, type TaskId } from '../../cluster/spec/task-id.js';
import { placeOf } from '../../cluster/task/peers.js';
import { isShoalError } from '../../errors/errors.js';
import type { Store } from '../../store/store.js';

export interface HoldersOptions {
  readonly server: Pick<Server, 'spec' | 'task'>;
  readonly store: Pick<Store, 'stat'>;
  readonly waitMs: number;
  readonly log: (line: string) => void;
}

const POLL_MS = 250;
const ASK_MS = 3000;
/** A wait that is over sooner is not logged. */
const QUIET_MS = 3000;
const PROGRESS_MS = 10_000;

export class CheckpointHolders {
  readonly #options: HoldersOptions;
  /** Tasks that were waited for in vain, and the incarnation that was known of each. */
  readonly #givenUp = new Map<TaskId, number | undefined>();
  #deadline = 0;

  constructor(options: HoldersOptions) {
    this.#options = options;
  }

  /** A restore begins: its waits end `waitMs` from here. */
  begin(): void {
    this.#deadline = performance.now() + this.#options.waitMs;
  }

  /**
   * The tasks whose checkpoints a survey may lack: those that are not there, and those that did not answer it. An evaluator
   * holds nothing that others do not have. One that left gracefully is not expected back; where it has the only copy of a
   * file, `wait` waits for it.
   */
  missingFrom({ unanswered }: Pick<Survey, 'unanswered'>): readonly TaskId[] {
    const { spec, task } = this.#options.server;
    const expected = spec.tasks.map(({ id }) => id);
    const others = task.members().flatMap((member) => (member.status === 'alive' ? [member.task] : []));
    return [...new Set([...expected, ...others])].filter(
      (id) =>
        parseTaskId(id).job !== 'evaluator' &&
        this.#member(id)?.status !== 'left' &&
        (!this.#isAlive(id) || unanswered.includes(placeOf(id))),
    );
  }

  /** Takes note of who answered a survey. True: one of the others has not been waited for. */
  isWorthWaiting(survey: Pick<Survey, 'unanswered'>): boolean {
    const missing = this.missingFrom(survey);
    for (const task of this.#givenUp.keys())
      if (this.#isAlive(task) && !missing.includes(task)) this.#givenUp.delete(task);
    return missing.some((task) => !this.#isGivenUp(task));
  }

  /** Waits for the tasks that are missing from a survey. Those that do not answer by the deadline are given up. */
  async everybody(survey: Pick<Survey, 'unanswered'>, signal: AbortSignal | undefined): Promise<void> {
    const { server, log } = this.#options;
    if (this.#leftMs <= 0) return this.#giveUp(this.missingFrom(survey));
    const absent = () => this.missingFrom({ unanswered: [] });
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
    const why = 'it is not known which checkpoint is the newest';
    while (await this.wait(survey.unanswered, { why, signal }));
  }

  readonly wait: HolderWait = async (places, { why, signal }) => {
    const { log, waitMs } = this.#options;
    const begun = performance.now();
    const before = await this.#unanswering(places);
    let now = before;
    for (let saidMs = QUIET_MS - PROGRESS_MS; now.length === before.length; ) {
      if (before.length === 0) return false;
      if (this.#leftMs <= 0) {
        log(`${why}: ${before.join(', ')} did not come back within ${Math.round(waitMs / 1000)} s`);
        this.#giveUp(before);
        return false;
      }
      const elapsedMs = performance.now() - begun;
      if (elapsedMs >= saidMs + PROGRESS_MS) {
        saidMs = elapsedMs;
        log(`${why}; waiting for ${now.join(', ')} (${Math.round(this.#leftMs / 1000)} s left)`);
      }
      await sleep(Math.min(POLL_MS, this.#leftMs), signal);
      const still = new Set(await this.#unanswering(places));
      now = before.filter((task) => still.has(task));
    }
    return true;
  };

  /** Tasks at those places that are away, or do not answer although nobody has noticed yet that they are. */
  async #unanswering(places: readonly string[]): Promise<readonly TaskId[]> {
    const { server, store } = this.#options;
    const known = new Map(
      [...server.spec.tasks.map(({ id }) => id), ...server.task.members().map(({ task }) => task)].map(
        (task) => [placeOf(task), task],
      ),
    );
    const each = await Promise.all(
      places.map(async (place) => {
        const task = known.get(place);
        // One that is no part of the cluster any more will not come; a checkpoint of one process names no task at all.
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
