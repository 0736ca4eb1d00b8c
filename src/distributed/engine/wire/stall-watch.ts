/**
 * Notices that something that is pending makes no progress. One timer serves everything: it continues while something is
 * pending. It counts its own calls instead of time, so that a blocked event loop is not mistaken for a stalled peer.
 */

/** How often progress is checked during the time limit. */
const CHECKS = 4;

export interface StallWatched {
  readonly stallMs: number;
  readonly isPending: () => boolean;
  /** A number that changes with progress. */
  readonly progress: () => number;
  readonly onStall: () => void;
}

export class StallWatch {
  readonly #watched: StallWatched;
  #timer: NodeJS.Timeout | undefined;
  #last = 0;
  /** Checks since the last progress. */
  #checks = 0;

  constructor(watched: StallWatched) {
    this.#watched = watched;
  }

  /** Called when something becomes pending. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#last = this.#watched.progress();
    this.#checks = 0;
    this.#wait();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #wait(): void {
    this.#timer = setTimeout(() => this.#check(), this.#watched.stallMs / CHECKS).unref();
  }

  #check(): void {
    this.#timer = undefined;
    const { isPending, progress, onStall } = this.#watched;
    if (!isPending()) return;
    const now = progress();
    this.#checks = now === this.#last ? this.#checks + 1 : 0;
    this.#last = now;
    if (this.#checks <= CHECKS) this.#wait();
    else onStall();
  }
}
