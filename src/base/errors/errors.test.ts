import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { describeError, ShoalError } from './errors.js';
import { EXIT, exitCodeOf } from './exit-codes.js';

test('a printed error shows its hint once, and no fields without a value', () => {
  const error = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port', task: '/job:ps/task:0' });
  const text = inspect(error);
  expect(error).toMatchObject({ message: 'no port', hint: 'set a port' });
  expect(text.split('set a port')).toHaveLength(2);
  expect(text).toContain("task: '/job:ps/task:0'");
  expect(text).not.toContain('undefined');
});

test('an error has the hint of its cause, unless it has its own', () => {
  const cause = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port' });
  expect(new ShoalError('SHOAL_INTERNAL', 'failed', { cause }).hint).toBe('set a port');
  expect(new ShoalError('SHOAL_INTERNAL', 'failed', { cause, hint: 'retry' }).hint).toBe('retry');
  expect(new ShoalError('SHOAL_INTERNAL', 'failed', { cause: new Error('no') }).hint).toBeUndefined();
});

test('a hint is found behind errors without one', () => {
  const cause = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port' });
  const wrapped = new Error('failed', { cause: new Error('no server', { cause }) });
  expect(describeError(wrapped)).toBe('failed\n  hint: set a port');
  expect(new ShoalError('SHOAL_INTERNAL', 'failed', { cause: wrapped }).hint).toBe('set a port');
});

test('a described error is its message and its hint, on a line of its own', () => {
  const error = new ShoalError('SHOAL_CONFIG', 'no port', { hint: 'set a port' });
  expect(describeError(error)).toBe('no port\n  hint: set a port');
  expect(describeError(new Error('no port'))).toBe('no port');
  expect(describeError('text')).toBe('text');
});

test.each([
  ['SHOAL_CONFIG', EXIT.usage],
  ['SHOAL_VERSION_MISMATCH', EXIT.usage],
  ['SHOAL_ADDRESS_IN_USE', EXIT.retry],
  ['SHOAL_WORKERS_LOST', EXIT.retry],
  ['SHOAL_ABORTED', EXIT.interrupted],
  ['SHOAL_NAN', EXIT.usage],
] as const)('a program that fails with %s exits with %i', (code, exit) => {
  expect(exitCodeOf(new ShoalError(code, 'failed'))).toBe(exit);
});
