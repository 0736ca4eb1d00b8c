import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type FileRange, sizeOfRanges, without, withRange } from './ranges.js';

const members = (ranges: readonly FileRange[]): number[] =>
  ranges.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i));

const some = fc.array(
  fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 20 })).map(([a, b]) => ({
    from: Math.min(a, b),
    to: Math.max(a, b),
  })),
  { maxLength: 8 },
);

test('ranges merge what is added, and without() returns the complement', () => {
  fc.assert(
    fc.property(some, (parts) => {
      const set = parts.reduce<readonly FileRange[]>(withRange, []);
      const wanted = [...new Set(members(parts))].sort((a, b) => a - b);
      expect(members(set)).toEqual(wanted);
      expect(sizeOfRanges(set)).toBe(wanted.length);
      const rest = without({ from: 0, to: 20 }, set);
      expect(members(rest)).toEqual(
        Array.from({ length: 20 }, (_, i) => i).filter((i) => !wanted.includes(i)),
      );
      for (const [i, { from }] of set.entries()) {
        if (i > 0) expect(from).toBeGreaterThan((set[i - 1] as FileRange).to);
      }
    }),
  );
});
