/**
 * The bursts of a soak, as a pure function of its seed: the same seed gives the same bursts of faults, however many are
 * made. A burst is one to three faults that overlap; the next one starts when the cluster has recovered.
 */
import { type Fault, mayOverlap } from './faults.js';
import { makeFault } from './make-fault.js';
import { between, oneOf, randomFrom } from './random.js';

export interface TimedFault {
  /** From 1. */
  readonly number: number;
  /** After the beginning of the burst. */
  readonly delayMs: number;
  readonly fault: Fault;
}

export interface Burst {
  readonly faults: readonly TimedFault[];
}

/** The bursts of a seed, without end; `kinds`: of these kinds only. */
export function* burstsOf(seed: number, kinds?: readonly Fault['kind'][]): Generator<Burst> {
  let number = 0;
  for (let index = 0; ; index++) {
    // Each burst has its own numbers, so that a change of one does not change those after it.
    const random = randomFrom(seed, index);
    const size = oneOf(random, [1, 1, 2, 2, 3]);
    const faults: TimedFault[] = [];
    for (let tries = 0; faults.length < size && tries < 50; tries++) {
      const fault = makeFault(random, kinds);
      if (!faults.every((other) => mayOverlap(other.fault, fault))) continue;
      const delayMs = faults.length === 0 ? 0 : between(random, 0, 1500);
      number += 1;
      faults.push({ number, delayMs, fault });
    }
    yield { faults };
  }
}

/** The bursts with the faults [from, to]; a burst is made completely or not at all. */
export function burstsBetween(
  seed: number,
  from: number,
  to: number,
  kinds?: readonly Fault['kind'][],
): readonly Burst[] {
  const found: Burst[] = [];
  for (const burst of burstsOf(seed, kinds)) {
    const [first, last] = [burst.faults[0]!.number, burst.faults.at(-1)!.number];
    if (first > to) return found;
    if (last >= from) found.push(burst);
  }
  return found;
}
