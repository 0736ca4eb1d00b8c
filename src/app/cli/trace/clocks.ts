/**
 * Aligns the clocks of processes. Each has a monotonic clock that begins anywhere; wall clocks are not used. What is known
 * are messages: one that was sent at `sent` by the clock of A and received at `received` by that of B says that B's
 * clock is ahead of A's by at most `received - sent`. Messages in both directions bound the difference from both sides,
 * and the fastest ones bound it best.
 */

/** The bounds of how far the clock of `b` is ahead of that of `a`. */
interface Link {
  least: number;
  most: number;
}

export interface AlignedClock {
  /** What to subtract from a time of this clock, to get that of the reference. */
  readonly ahead: number;
  /** The difference may be wrong by this much. */
  readonly uncertainty: number;
}

export class Clocks {
  /** For each pair, under both orders. */
  readonly #links = new Map<string, Map<string, Link>>();

  /** A message from one process to another. */
  message(from: string, sent: number, to: string, received: number): void {
    const forward = this.#link(from, to);
    const backward = this.#link(to, from);
    forward.most = Math.min(forward.most, received - sent);
    backward.least = Math.max(backward.least, sent - received);
  }

  #link(a: string, b: string): Link {
    const others = this.#links.get(a) ?? new Map<string, Link>();
    this.#links.set(a, others);
    const link = others.get(b) ?? { least: Number.NEGATIVE_INFINITY, most: Number.POSITIVE_INFINITY };
    others.set(b, link);
    return link;
  }

  /**
   * The clocks that messages in both directions connect with the reference, by a chain of processes: the next one is
   * always that with the best bounds.
   */
  aligned(reference: string): ReadonlyMap<string, AlignedClock> {
    const known = new Map<string, AlignedClock>([[reference, { ahead: 0, uncertainty: 0 }]]);
    for (;;) {
      let next: { readonly name: string; readonly from: string; readonly link: Link } | undefined;
      for (const from of known.keys()) {
        for (const [name, link] of this.#links.get(from) ?? []) {
          const isBetter = widthOf(link) < (next ? widthOf(next.link) : Number.POSITIVE_INFINITY);
          if (!known.has(name) && isBetter) next = { name, from, link };
        }
      }
      if (!next) return known;
      const { name, from, link } = next;
      const base = known.get(from) as AlignedClock;
      known.set(name, {
        ahead: base.ahead + (link.least + link.most) / 2,
        uncertainty: base.uncertainty + Math.max(0, widthOf(link)) / 2,
      });
    }
  }
}

const widthOf = ({ least, most }: Link): number => most - least;
