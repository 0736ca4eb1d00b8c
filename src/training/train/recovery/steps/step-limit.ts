/**
 * The time limit of a training step, derived from the durations of recent steps: the first steps get a generous limit,
 * later ones a multiple of the longest recent step. The limit catches what nothing else detects, such as a lost
 * message. The membership detects a ps that dies or freezes, and aborts the running steps at once.
 */
import { ShoalError } from '../../../../base/errors/errors.js';

const FIRST_MS = 600_000;
const FLOOR_MS = 60_000;
const FACTOR = 10;
const RECENT = 100;
/** Consecutive expired limits after which training fails. */
const MAX_EXPIRED = 3;
/** How long workers may take to pause for a checkpoint: before any step has completed, and the minimum. */
const FIRST_PAUSE_MS = 60_000;
const FLOOR_PAUSE_MS = 15_000;

/** The durations of recent steps. */
export class StepTimes {
  readonly #recent: number[] = [];

  add(ms: number): void {
    this.#recent.push(ms);
    if (this.#recent.length > RECENT) this.#recent.shift();
  }

  /** The longest recent step; undefined if there was none. */
  get longestMs(): number | undefined {
    return this.#recent.length === 0 ? undefined : Math.max(...this.#recent);
  }

  /** How long workers may take to complete their steps. Assumes that they take as long as those of this task. */
  get pauseMs(): number {
    const { longestMs } = this;
    return longestMs === undefined ? FIRST_PAUSE_MS : Math.max(FLOOR_PAUSE_MS, FACTOR * longestMs);
  }
}

export interface StepLimitOptions {
  /** A fixed limit; Infinity: no limit. Default: derived from recent steps. */
  readonly fixedMs?: number;
  /** The minimum of the derived limit; default: 60 s. */
  readonly floorMs?: number;
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
    // Steps may have become slower: each attempt gets more time than the previous one.
    return this.#expired === 0
      ? limitMs
      : Math.max(limitMs, Math.min(FIRST_MS, limitMs * 2 ** this.#expired));
  }

  /** Records the duration of a completed step. */
  completed(ms: number): void {
    this.#times.add(ms);
    this.#expired = 0;
  }

  /**
   * Records a step that was abandoned at the limit. Throws after too many in a row.
   * @param isComplete whether all tasks that a step needs are alive: waiting for a missing task does not count.
   */
  expired(isComplete: boolean): void {
    const limitMs = this.ms;
    this.#expired = isComplete ? this.#expired + 1 : 0;
    if (this.#expired < MAX_EXPIRED) return;
    throw new ShoalError(
      'SHOAL_TIMEOUT',
      `A training step timed out ${MAX_EXPIRED} times in a row, the last time after more than ${limitMs / 1000} s, while all tasks that it needs were alive`,
      {
        hint: 'If steps take that long, set train.stepTimeoutSecs to more than the longest step. Otherwise look for an input that delivers no records.',
      },
    );
  }
}
