import { expect, test, vi } from 'vitest';
import { described } from '../../../test/described.js';
import { defaultLog, leveled, logLevelOf, splitLevel } from './log.js';

test('lines below the level are dropped, and those other than info begin with their level', () => {
  const lines: string[] = [];
  const log = leveled((line) => lines.push(line), 'info');
  log('one');
  log('two', 'debug');
  log('three', 'warn');
  log('four', 'error');
  expect(lines).toEqual(['one', 'WARN three', 'ERROR four']);
  expect(lines.map((line) => splitLevel(line))).toEqual([
    { level: 'info', message: 'one' },
    { level: 'warn', message: 'three' },
    { level: 'error', message: 'four' },
  ]);
});

test('an indented line has the level of the line before', () => {
  expect(splitLevel('  hint: set a port', 'error')).toEqual({
    level: 'error',
    message: '  hint: set a port',
  });
  expect(splitLevel('step 1', 'error')).toEqual({ level: 'info', message: 'step 1' });
});

test('the default log writes to standard error, from the level of the environment', () => {
  const write = vi.spyOn(console, 'error').mockImplementation(() => {});
  const log = defaultLog({ SHOAL_LOG_LEVEL: 'warn' });
  log('one');
  log('two', 'error');
  expect(write.mock.calls).toEqual([['ERROR two']]);
  write.mockRestore();
});

test('the environment sets the level', () => {
  expect(logLevelOf({})).toBe('info');
  expect(logLevelOf({ SHOAL_LOG_LEVEL: 'debug' })).toBe('debug');
  expect(() => logLevelOf({ SHOAL_LOG_LEVEL: 'loud' })).toThrow(
    described(/"loud" is not a log level\n.*debug, info, warn, error/),
  );
});
