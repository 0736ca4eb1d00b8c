/** What the page works out by itself: whether ps are balanced, and where the boxes of a picture are. */
import { expect, test } from 'vitest';
import { LEAST_BYTES, uneven } from '../../src/app/page/client/balance.js';
import { BOX, layOut } from '../../src/app/page/client/flow-layout.js';

const held = (...amounts: number[]) => amounts.map((amount, i) => ({ task: `ps/${i}`, amount }));
const bytes = { least: LEAST_BYTES, what: 'holds % of the bytes', unit: '' };

test('a ps that holds far more than its share is named', () => {
  expect(uneven(held(1e6, 10.1e6), bytes)).toBe(
    'ps/1 holds 91 % of the bytes: 10.1 MB of 11.1 MB. An even share is 50 %.',
  );
  expect(uneven(held(5e6, 1e6, 1e6, 1e6), bytes)).toMatch(/^ps\/0 holds 63 %.*even share is 25 %/);
});

test('nothing is said of small differences, few bytes, or one ps', () => {
  for (const amounts of [[4e6, 6e6], [10, 900_000], [5e6], [0, 0], []])
    expect(uneven(held(...amounts), bytes)).toBeUndefined();
});

test('each box is below those that it gets tensors from, and none covers another', () => {
  // 0 → 1 → 3, 2 (a variable) → 3, and a loop 3 → 1.
  const { boxes, width, height } = layOut(5, [
    [0, 1],
    [1, 3],
    [2, 3],
    [3, 1],
    [9, 1],
  ]);
  expect(boxes[1]!.y).toBeGreaterThan(boxes[0]!.y);
  expect(boxes[3]!.y).toBeGreaterThan(boxes[1]!.y);
  expect(boxes[2]!.y).toBe(boxes[1]!.y);
  for (const [i, a] of boxes.entries()) {
    expect(a.x).toBeGreaterThanOrEqual(0);
    expect(a.x + BOX.width).toBeLessThanOrEqual(width);
    expect(a.y + BOX.height).toBeLessThanOrEqual(height);
    for (const b of boxes.slice(i + 1)) expect(a.y !== b.y || Math.abs(a.x - b.x) >= BOX.width).toBe(true);
  }
});
