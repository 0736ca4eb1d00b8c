import * as v from 'valibot';
import { expect, test } from 'vitest';
import { type ConsistencyOption, ConsistencySchema, consistencyOf } from './consistency.js';

test('consistency has a default, and the values of the first release are accepted', () => {
  const given = [undefined, 'consistent', 'relaxed', 'cut', 'loose'] as const;
  expect(given.map((word) => consistencyOf(word))).toEqual([
    'consistent',
    'consistent',
    'relaxed',
    'consistent',
    'relaxed',
  ]);
  expect(() => consistencyOf('torn' as ConsistencyOption)).toThrow(/consistency is "torn"/);
});

test('manifests with old and new values can be read', () => {
  const read = (word: string) => v.parse(ConsistencySchema, word);
  expect(['cut', 'relaxed', 'imported'].map(read)).toEqual(['consistent', 'relaxed', 'imported']);
});
