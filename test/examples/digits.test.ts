/** The digits example reaches the accuracy in its README. */
import { beforeAll, describe, expect, it } from 'vitest';
import { type Digits, loadDigits, PIXELS } from '../../examples/digits/data.js';
import { drawDigit } from '../../examples/digits/draw.js';
import { trainConvnet, trainSoftmax } from '../../examples/digits/train.js';

let digits: Digits;
beforeAll(() => {
  digits = loadDigits();
});

describe('the digits', () => {
  it('are split without overlap, in the same way every time', () => {
    expect([digits.train.count, digits.heldOut.count]).toEqual([9000, 1000]);
    const again = loadDigits();
    expect(again.heldOut.labels).toEqual(digits.heldOut.labels);
    expect(new Set(digits.heldOut.labels).size).toBe(10);
  });

  it('can be drawn', () => {
    const lines = drawDigit(digits.heldOut.images.subarray(0, PIXELS)).split('\n');
    expect(lines.length).toBeGreaterThan(5);
    expect(lines.length).toBeLessThanOrEqual(14);
    expect(lines.join('')).toMatch(/[▒▓█]/);
  });
});

describe('softmax regression', () => {
  it('is right on over 90 % of the held-out digits', async () => {
    const { accuracy, losses } = await trainSoftmax(digits, { steps: 700, batchSize: 100 });
    expect(losses[0]).toBeCloseTo(Math.log(10), 4);
    expect(accuracy).toBeGreaterThan(0.9);
  }, 120_000);

  it('is reproducible with the same seed', async () => {
    const [one, two] = [
      await trainSoftmax(digits, { steps: 20, seed: 3 }),
      await trainSoftmax(digits, { steps: 20, seed: 3 }),
    ];
    one.losses.forEach((loss, i) => {
      expect(loss).toBeCloseTo(two.losses[i] as number, 4);
    });
  }, 120_000);

  it('stops when its signal is aborted', async () => {
    const stop = new AbortController();
    const { losses } = await trainSoftmax(digits, {
      steps: 100,
      signal: stop.signal,
      onStep: (step) => {
        if (step === 5) stop.abort();
      },
    });
    expect(losses).toHaveLength(5);
  }, 120_000);
});

describe('the convnet', () => {
  it('is right on over 97 % of the held-out digits', async () => {
    const { accuracy } = await trainConvnet(digits, { steps: 420 });
    expect(accuracy).toBeGreaterThan(0.97);
  }, 240_000);
});
