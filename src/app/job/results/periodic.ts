/** Background work every so many seconds or steps, one at a time. */

/** The longest time of a timer. */
const MAX_MS = 2 ** 31 - 1;

export interface PeriodicOptions {
  readonly everySecs: number | undefined;
  readonly everySteps: number | undefined;
  /** Handles its own failures. Resolves with the delay of a retry, or undefined for none. */
  readonly work: () => Promise<number | undefined>;
}

export class Periodic {
  readonly #options: PeriodicOptions;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #nextStep = Number.POSITIVE_INFINITY;
  #isOver = false;

  constructor(options: PeriodicOptions) {
    this.#options = options;
  }

  /** Starts the schedule at this step. */
  begin(step: number): void {
    const { everySecs, everySteps } = this.#options;
    if (everySecs !== undefined && Number.isFinite(everySecs))
      this.#timer = setInterval(() => this.start(), Math.min(everySecs * 1000, MAX_MS));
    if (everySteps !== undefined) this.#nextStep = step + everySteps;
  }

  /** Reports the global step. */
  onStep(step: number): void {
    if (step < this.#nextStep || this.#running) return;
    this.#nextStep = step + (this.#options.everySteps ?? Number.POSITIVE_INFINITY);
    this.start();
  }

  /** Does the work now, unless it is in progress. */
  start(): void {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined;
    });
  }

  async #work(): Promise<void> {
    clearTimeout(this.#retry);
    const retryMs = await this.#options.work();
    if (retryMs !== undefined && !this.#isOver) this.#retry = setTimeout(() => this.start(), retryMs);
  }

  /** Stops the schedule; resolves when the work in progress has ended. */
  async stop(): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
    this.#nextStep = Number.POSITIVE_INFINITY;
    await this.#running;
  }
}
