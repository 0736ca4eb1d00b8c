/** The output of the checkpoint commands: sizes, tables, and the slice read for the first values. */
import { describe, expect, test } from 'vitest';
import { bytes, count, table } from '../../../base/text/format.js';
import { leadingSlice, showValue } from './tensor-values.js';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 kB'],
  [123_456_789, '123 MB'],
  [2_500_000_000, '2.5 GB'],
])('%i bytes are formatted as %s', (given, shown) => {
  expect(bytes(given)).toBe(shown);
});

test('count() chooses singular or plural', () => {
  expect([count(1, 'copy', 'copies'), count(2, 'copy', 'copies'), count(0, 'file')]).toEqual([
    '1 copy',
    '2 copies',
    '0 files',
  ]);
});

test('a table left-aligns words and right-aligns numbers', () => {
  expect(
    table(
      ['name', 'size'],
      [
        ['a', '1.0 kB'],
        ['longer', '20 B'],
      ],
    ),
  ).toBe('name      size\na       1.0 kB\nlonger    20 B');
});

describe('the first values', () => {
  test.each([
    [[], 5, undefined],
    [[100], 5, [{ start: 0, length: 5 }]],
    [[3], 5, [{ start: 0, length: 3 }]],
    [[100, 10], 25, [{ start: 0, length: 3 }, 'all']],
    [
      [100, 10],
      5,
      [
        { start: 0, length: 1 },
        { start: 0, length: 5 },
      ],
    ],
    [
      [1, 4, 1000],
      7,
      [
        { start: 0, length: 1 },
        { start: 0, length: 1 },
        { start: 0, length: 7 },
      ],
    ],
  ])('of shape %o, %i elements, are in the slice %o', (shape, wanted, slice) => {
    expect(leadingSlice(shape, wanted)).toEqual(slice);
  });

  test.each([
    [Math.fround(0.1), true, '0.1'],
    [Math.fround(1 / 3), true, '0.33333334'],
    [0.1, false, '0.1'],
    [Number.NaN, true, 'NaN'],
    [12345678901234567890n, false, '12345678901234567890'],
    ['a"b', false, '"a\\"b"'],
    [{ re: 1, im: -2 }, false, '1+-2i'],
    [true, false, 'true'],
  ])('%o is printed with the fewest digits that identify it', (value, isFloat32, shown) => {
    expect(showValue(value, isFloat32)).toBe(shown);
  });
});
