/**
 * How long a training step may take. Nobody knows it beforehand, so it follows from the steps that were made: the first ones
 * get a generous limit, later ones a multiple of the longest recent step. The limit is for what nothing else notices, such as
 * a lost message: a ps that dies or freezes is noticed by the membership, which aborts the steps under way at once.
 */
import { ShoalError } from '../../errors/errors.js';

const FIRST_MS = 600_000;
const FLOOR_MS = 60_000;
const FACTOR = 10;
const RECENT = 100;
/** Deadlines in a row after which a step is taken for one that can never end in time. */
const MAX_EXPIRED = 3;
/** How long workers may take to pause for a checkpoint when no step has been made, and at least. */
const FIRST_PAUSE_MS = 60_000;
const FLOOR_PAUSE_MS = 15_000;

/** The durations of recent steps. */
export class StepTimes {
  readonly #recent: number[] = [];

  add(ms: number): void {
    this.#recent.push(ms);
    if (this.#recent.length > RECENT) this.#recent.shift();
  }

  /** The longest recent one; undefined when there was none. */
  get longestMs(): number | undefined {
    return this.#recent.length === 0 ? undefined : Math.max(...this.#recent);
  }

  /** How long the workers of the cluster may take to end their steps: theirs are taken to be like those of this task. */
  get pauseMs(): number {
    const { longestMs } = this;
    return longestMs === undefined ? FIRST_PAUSE_MS : Math.max(FLOOR_PAUSE_MS, FACTOR * longestMs);
  }
}

export interface StepLimitOptions {
  /** A limit that does not depend on the steps that were made; Infinity: none. */
  readonly fixedMs?: number | undefined;
  /** The lowest limit that follows from steps; default: 60 s. */
  readonly floorMs?: number | undefined;
}

export class StepLimit {
  readonly #times: StepTimes;
  readonly #options: StepLimitOptions;
  #expired = 0;

  constructor(times: StepTimes, options: StepLimitOptions = {}) {
    this.#times = times;
    this.#options = options;
  }

  get ms(): number {
    const { fixedMs, floorMs = FLOOR_MS } = this.#options;
    if (fixedMs !== undefined) return fixedMs;
    const { longestMs } = this.#times;
    const limitMs = longestMs === undefined ? FIRST_MS : Math.max(floorMs, FACTOR * longestMs);
    // A step may have become slower: each attempt gets more time than the one before.
    return this.#expired === 0
      ? limitMs
      : Math.max(limitMs, Math.min(FIRST_MS, limitMs * 2 ** this.#expired));
  }

  /** A step was made in so many milliseconds. */
  completed(ms: number): void {
    this.#times.add(ms);
    this.#expired = 0;
  }

  /**
   * A step was given up at the limit. Throws when that has happened too often in a row.
   * @param isComplete whether all tasks that a step needs are there: what waits for a task that is away is not too slow.
   */
  expired(isComplete: boolean): void {
    const limitMs = this.ms;
    this.#expired = isComplete ? this.#expired + 1 : 0;
    if (this.#expired < MAX_EXPIRED) return;
    throw new ShoalError(
      'SHOAL_TIMEOUT',
      `${MAX_EXPIRED} attempts in a row to make a training step took too long, the last one more than ${limitMs / 1000} s, while all tasks that it needs were alive`,
      {
        hint: 'If steps take so long, set train.stepTimeoutSecs to more than the longest one. If not, look for an input that gives no records.',
      },
    );
  }
}
