/** Work that is done beside training every so many seconds or steps, never twice at once. */

export interface PeriodicOptions {
  readonly everySecs: number | undefined;
  readonly everySteps: number | undefined;
  /** It handles its failures itself. */
  readonly work: () => Promise<void>;
}

export class Periodic {
  readonly #options: PeriodicOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #nextStep = Number.POSITIVE_INFINITY;

  constructor(options: PeriodicOptions) {
    this.#options = options;
  }

  /** Training is at this step. */
  begin(step: number): void {
    const { everySecs, everySteps } = this.#options;
    if (everySecs !== undefined) this.#timer = setInterval(() => this.start(), everySecs * 1000);
    if (everySteps !== undefined) this.#nextStep = step + everySteps;
  }

  /** Tells the global step. */
  saw(step: number): void {
    if (step < this.#nextStep || this.#running) return;
    this.#nextStep = step + (this.#options.everySteps ?? Number.POSITIVE_INFINITY);
    this.start();
  }

  /** Does it now, unless it is being done. */
  start(): void {
    this.#running ??= this.#options.work().finally(() => {
      this.#running = undefined;
    });
  }

  /** No more of it; resolves when what is being done has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#nextStep = Number.POSITIVE_INFINITY;
    await this.#running;
  }
}
