/** Matches an error by its message and its hint, as they are printed. */
import { expect } from 'vitest';
import { describeError } from '../src/base/errors/errors.js';

export const described = (pattern: RegExp | string) =>
  expect.toSatisfy((error: unknown) => {
    const text = describeError(error);
    return typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text);
  }, `an error described by ${pattern}`);
