/**
 * How late this machine makes an idle process. Experiments assert that something happens within a time; a machine
 * that lets everybody wait (other work, few processors) makes that later by about as much.
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

  /** By how many milliseconds this process was late, in all, between two moments of the wall clock. */
  between(from: number, to: number): number {
    const totalAt = (time: number) => this.#marks.findLast(({ at }) => at <= time)?.total ?? 0;
    return Math.round((this.#marks.find(({ at }) => at >= to)?.total ?? this.#total) - totalAt(from));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
