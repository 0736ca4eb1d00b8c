/** Tests each function of the high-level op API once. */
import { beforeAll, describe, expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import type { Fetches } from '../session/fetches.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import * as tf from './index.js';
import { CASES } from './testing/friendly-cases.js';

/** Tested elsewhere, or not for users of `tf`. */
const ELSEWHERE = new Set([
  'callFunction',
  'placeholder',
  'randomNormal',
  'randomShuffle',
  'randomUniform',
  'raw',
  'setRandomSeed',
  'truncatedNormal',
]);

const plain = (value: unknown): unknown => {
  if (value instanceof Tensor) return value.toArray();
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, plain(part)]));
};

function expectClose(got: unknown, expected: unknown, path: string): void {
  if (typeof expected === 'number') {
    expect(typeof got, path).toBe('number');
    const difference = Math.abs((got as number) - expected);
    expect(
      difference <= 1e-5 * Math.max(1, Math.abs(expected)),
      `${path}: ${got} instead of ${expected}`,
    ).toBe(true);
  } else if (typeof expected === 'object' && expected !== null) {
    expect(Object.keys(got as object), path).toEqual(Object.keys(expected));
    for (const [key, part] of Object.entries(expected)) {
      expectClose((got as Record<string, unknown>)[key], part, `${path}.${key}`);
    }
  } else expect(got, path).toEqual(expected);
}

describe('the high-level op API', () => {
  test('is tested completely', () => {
    expect(Object.keys(tf).filter((name) => !(name in CASES) && !ELSEWHERE.has(name))).toEqual([]);
  });

  const results = new Map<string, unknown>();
  const expected = new Map<string, unknown>();
  beforeAll(() => {
    using graph = new Graph();
    using session = Session.open({ graph });
    const fetches = graph.asDefault(() =>
      Object.fromEntries(
        Object.entries(CASES).map(([name, make]) => {
          const [build, value] = make();
          expected.set(name, value);
          return [name, build];
        }),
      ),
    );
    const values = session.runSync(fetches as { [name: string]: Fetches }) as Record<string, unknown>;
    for (const [name, value] of Object.entries(values)) results.set(name, plain(value));
  });

  test.each(Object.keys(CASES))('%s', (name) => expectClose(results.get(name), expected.get(name), name));
});
