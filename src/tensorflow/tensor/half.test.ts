import { beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../test/python.js';
import { bfloat16ToNumber, halfToNumber, numberToBfloat16, numberToHalf } from './half.js';

type Name = 'float16' | 'bfloat16';
const CODECS: Record<Name, { decode: (word: number) => number; encode: (value: number) => number }> = {
  float16: { decode: halfToNumber, encode: numberToHalf },
  bfloat16: { decode: bfloat16ToNumber, encode: numberToBfloat16 },
};
const NAMES: Name[] = ['float16', 'bfloat16'];
const PATTERNS = Array.from({ length: 65536 }, (_, word) => word);

/** Every half, the midpoints between neighbours, and the numbers next to the midpoints. */
function interestingNumbers(): Float64Array {
  const numbers: number[] = [
    0,
    -0,
    1e-300,
    1e300,
    -1e300,
    65504,
    65519.999,
    65520,
    2 ** -25,
    2 ** -24,
    3.4e38,
  ];
  for (const { decode } of Object.values(CODECS)) {
    for (let word = 0; word < 0x7c00; word += 7) {
      const [low, high] = [decode(word), decode(word + 1)];
      const middle = (low + high) / 2;
      numbers.push(low, middle, middle * (1 + 1e-6), middle * (1 - 1e-6), -middle);
    }
  }
  return Float64Array.from(numbers);
}

const numbers = interestingNumbers();
let python: Record<Name, { values: Float64Array; words: Uint16Array }>;

const bytes = (base64: string): ArrayBuffer => Uint8Array.from(Buffer.from(base64, 'base64')).buffer;

beforeAll(async () => {
  const answer = await askPython<Record<Name, { values: string; words: string }>>(
    new URL('../../../test/ops-oracle/halves.py', import.meta.url),
    {
      numbers: Buffer.from(numbers.buffer).toString('base64'),
    },
  );
  const decoded = (name: Name) => ({
    values: new Float64Array(bytes(answer[name].values)),
    words: new Uint16Array(bytes(answer[name].words)),
  });
  python = { float16: decoded('float16'), bfloat16: decoded('bfloat16') };
});

describe.each(NAMES)('%s', (name) => {
  const { decode, encode } = CODECS[name];

  test('decodes each of the 65,536 patterns like numpy', () => {
    const { values } = python[name];
    expect(PATTERNS.filter((word) => !Object.is(decode(word), values[word]))).toEqual([]);
  });

  test('encodes each decoded number to the same pattern', () => {
    const differing = PATTERNS.filter((word) => {
      const value = decode(word);
      return Number.isNaN(value) ? !Number.isNaN(decode(encode(value))) : encode(value) !== word;
    });
    expect(differing).toEqual([]);
  });

  test('rounds the numbers in between like numpy', () => {
    const { words } = python[name];
    const differing = [...numbers].filter((value, i) => encode(value) !== words[i]);
    expect(differing).toEqual([]);
  });
});
