/** Rates of counters over the last seconds. */
const WINDOW = 10;

export class Rate {
  readonly #samples: { readonly at: number; readonly count: number }[] = [];

  /** Takes the value of the counter at a time in milliseconds. */
  sample(at: number, count: number): void {
    this.#samples.push({ at, count });
    if (this.#samples.length > WINDOW) this.#samples.shift();
  }

  get perSecond(): number | null {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (!first || !last || last.at === first.at) return null;
    return Math.max(0, ((last.count - first.count) * 1000) / (last.at - first.at));
  }
}
