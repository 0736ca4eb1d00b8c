/** Random numbers that are a function of a seed. */

/** Returns a number in [0, 1). */
export type Random = () => number;

/** Mulberry32, started from a hash of the seed, so that neighbouring seeds give unrelated numbers. */
export function randomFrom(seed: number, stream: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(stream + 1, 0xc2b2ae35);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function oneOf<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

/** An integer in [low, high). */
export function between(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low));
}
