/**
 * Measures the scheduling delay of an idle process. Experiments assert that something happens within a time, and allow
 * for the delay of a machine that is busy or has few processors.
 */
const EVERY_MS = 20;

export class Lateness {
  readonly #timer: NodeJS.Timeout;
  #due = performance.now() + EVERY_MS;
  #total = 0;
  readonly #marks: { readonly at: number; readonly total: number }[] = [];

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#total += Math.max(0, now - this.#due - EVERY_MS / 2);
      this.#due = now + EVERY_MS;
      this.#marks.push({ at: Date.now(), total: this.#total });
    }, EVERY_MS);
    this.#timer.unref();
  }

  /** The total delay of this process in milliseconds between two wall-clock times. */
  between(from: number, to: number): number {
    const totalAt = (time: number) => this.#marks.findLast(({ at }) => at <= time)?.total ?? 0;
    return Math.round((this.#marks.find(({ at }) => at >= to)?.total ?? this.#total) - totalAt(from));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
