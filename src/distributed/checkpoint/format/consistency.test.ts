import * as v from 'valibot';
import { expect, test } from 'vitest';
import { type Consistency, ConsistencySchema, consistencyOf } from './consistency.js';

test('consistency has a default, and other words are refused', () => {
  const given = [undefined, 'consistent', 'relaxed'] as const;
  expect(given.map((word) => consistencyOf(word))).toEqual(['consistent', 'consistent', 'relaxed']);
  expect(() => consistencyOf('torn' as Consistency)).toThrow(/consistency is "torn"/);
});

test('manifests with the stored words and with those of the options can be read', () => {
  const read = (word: string) => v.parse(ConsistencySchema, word);
  expect(['cut', 'relaxed', 'imported'].map(read)).toEqual(['consistent', 'relaxed', 'imported']);
});
