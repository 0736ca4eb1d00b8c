/**
 * The end of training. The last checkpoint is to have the last steps of all workers, and to be on their disks as the ones
 * before it were; the one that it makes go is to go from there too. So a worker that makes no more steps tells the chief, and
 * stays until the chief, which saves then, has gone.
 */
import type { ClusterTask } from '../cluster/cluster-task.js';
import type { Identity } from '../cluster/membership-map.js';
import { isThere, type Member } from '../cluster/membership-types.js';
import { type TaskId, trains } from '../cluster/task-id.js';
import { isShoalError, messageOf } from '../errors/errors.js';

const OVER = 'train-over';
const ASK_MS = 5000;
/** Beside what the cluster tells of its members, a worker may tell that it is done. */
const LOOK_MS = 100;

export interface LastStepsOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly log: (line: string) => void;
}

export class LastSteps {
  readonly #task: ClusterTask;
  /** Lives of workers that make no more steps. */
  readonly #over = new Set<string>();
  #isOver = false;

  constructor(task: ClusterTask) {
    this.#task = task;
    task.onRequest(OVER, (_, { from }) => {
      this.#over.add(lifeOf(from));
      return null;
    });
  }

  /** Whether this task makes no more steps: it rests, whatever step others are at. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Waits until no other worker trains. Whoever takes longer than that goes on alone. */
  async ofOthers({ timeoutMs, signal, log }: LastStepsOptions): Promise<void> {
    const task = this.#task;
    const others = (members: readonly Member[]) =>
      members
        .filter((member) => member.task !== task.task && trains(member.task) && isThere(member.status))
        .filter((member) => !this.#over.has(lifeOf(member)))
        .map((member) => member.task);
    const waitsFor = others(task.members());
    if (waitsFor.length > 0)
      log(`waiting for the last steps of ${waitsFor.join(', ')}, at most ${timeoutMs / 1000} s`);
    try {
      await task.waitFor(others, { timeoutMs, signal, progressMs: LOOK_MS });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      log('the others train on; the last checkpoint is made without their last steps');
    }
  }

  /** A worker's part: makes no more steps, says so, and waits until the chief has gone. */
  async stay({ timeoutMs, signal, log }: LastStepsOptions): Promise<void> {
    this.#isOver = true;
    const task = this.#task;
    const { chief } = task;
    if (chief === undefined || chief === task.task) return;
    const isChiefThere = (members: readonly Member[]): readonly TaskId[] =>
      members.some((member) => member.task === chief && isThere(member.status)) ? [chief] : [];
    if (isChiefThere(task.members()).length === 0) return;
    log(`staying for the last checkpoint of ${chief}, at most ${timeoutMs / 1000} s`);
    // It has trained: that the chief can't be reached, or trains on, is no failure of this task.
    const going = (why: string) => {
      if (!signal?.aborted) log(`${chief} ${why}; going`);
    };
    try {
      await task.request(chief, OVER, null, { timeoutMs: ASK_MS, signal });
    } catch (error) {
      return going(`can't be told: ${messageOf(error).split('\n')[0]}`);
    }
    await task.waitFor(isChiefThere, { timeoutMs, signal }).catch(() => going('trains on'));
  }
}

const lifeOf = ({ task, incarnation, nonce }: Identity): string => `${task} ${incarnation} ${nonce}`;
