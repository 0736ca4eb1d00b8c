/** Numbers for tests, and comparison within a tolerance. */
import { expect } from 'vitest';

type Nested = number | readonly Nested[];

const flat = (value: unknown): number[] =>
  Array.isArray(value) ? value.flat(Number.POSITIVE_INFINITY).map(Number) : [Number(value)];

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : [];

/** Same shape, and each number within `relative` times the larger of the two and `floor`. */
export function expectClose(actual: unknown, expected: unknown, relative = 1e-6, floor = 1e-6): void {
  expect(shapeOf(actual)).toEqual(shapeOf(expected));
  const [a, b] = [flat(actual), flat(expected)];
  a.forEach((value, i) => {
    const other = b[i] as number;
    if (Object.is(value, other) || value === other) return;
    const allowed = relative * Math.max(Math.abs(value), Math.abs(other)) + relative * floor;
    if (!(Math.abs(value - other) <= allowed)) {
      expect.fail(`element ${i}: ${value} instead of ${other}`);
    }
  });
}

/** Reproducible numbers in [low, high), from a linear congruential generator. */
export function numbers(seed: number, low = -1, high = 1): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // Float32 values pass through JSON unchanged.
    return Math.fround(low + ((high - low) * state) / 2 ** 32);
  };
}

/** An array of this shape, filled from `next`. */
export function filled(shape: readonly number[], next: () => number): Nested {
  const [size, ...rest] = shape;
  if (size === undefined) return next();
  return Array.from({ length: size }, () => filled(rest, next));
}
