import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { ShoalError } from './errors.js';
import { EXIT, exitCodeOf } from './exit-codes.js';

test('a printed error shows its hint once, and no fields without a value', () => {
  const error = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port', task: '/job:ps/task:0' });
  const text = inspect(error);
  expect(error.hint).toBe('set a port');
  expect(text.split('set a port')).toHaveLength(2);
  expect(text).toContain("task: '/job:ps/task:0'");
  expect(text).not.toContain('undefined');
});

test.each([
  ['SHOAL_CONFIG', EXIT.usage],
  ['SHOAL_ADDRESS_IN_USE', EXIT.retry],
  ['SHOAL_WORKERS_LOST', EXIT.retry],
  ['SHOAL_ABORTED', EXIT.interrupted],
  ['SHOAL_NAN', EXIT.usage],
] as const)('a program that fails with %s exits with %i', (code, exit) => {
  expect(exitCodeOf(new ShoalError(code, 'failed'))).toBe(exit);
});
