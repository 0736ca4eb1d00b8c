import { expect, test } from 'vitest';
import { TaskLog } from './task-log.js';

test('lines that are kept reach the log with their level and data', () => {
  const received: unknown[] = [];
  const kept = new TaskLog();
  kept.tee((...all) => received.push(all))('a step', 'debug', { event: 'log' });
  expect(received).toEqual([['a step', 'debug', { event: 'log' }]]);
  expect(kept.after(0).lines).toMatchObject([{ level: 'debug', text: 'a step' }]);
});
