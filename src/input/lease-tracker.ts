/**
 * What completed steps have consumed of a worker's leases. Steps may complete out of order (several in flight):
 * a count is reported only when everything before it has been consumed too.
 */
export interface Consumed {
  readonly lease: number;
  /** The records from this count up to the other, in the order of the lease's shard. */
  readonly from: number;
  readonly upTo: number;
}

export class LeaseTracker {
  /** How far each lease is consumed without a gap. */
  readonly #upTo = new Map<number, number>();
  readonly #ahead = new Map<number, Consumed[]>();

  /** A lease whose first records were consumed before. */
  begin(lease: number, from: number): void {
    this.#upTo.set(lease, from);
  }

  /** Forgets everything: other leases follow. */
  clear(): void {
    this.#upTo.clear();
    this.#ahead.clear();
  }

  /** Takes what a step consumed; gives the count to report, if it grew. A step of a forgotten lease gives none. */
  completed(step: Consumed): { readonly lease: number; readonly upTo: number } | undefined {
    const { lease } = step;
    const before = this.#upTo.get(lease);
    if (before === undefined) return undefined;
    const ahead = [...(this.#ahead.get(lease) ?? []), step].sort((a, b) => a.from - b.from);
    let upTo = before;
    while (ahead[0] && ahead[0].from <= upTo) upTo = Math.max(upTo, (ahead.shift() as Consumed).upTo);
    this.#ahead.set(lease, ahead);
    this.#upTo.set(lease, upTo);
    return upTo > before ? { lease, upTo } : undefined;
  }

  /** The lease needs no more watching. */
  end(lease: number): void {
    this.#upTo.delete(lease);
    this.#ahead.delete(lease);
  }
}
