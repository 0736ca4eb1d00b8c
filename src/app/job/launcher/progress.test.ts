import { expect, test } from 'vitest';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { hasJoined, progressLine, rate, taskLine } from './progress.js';

test('the rate is computed from two samples', () => {
  expect(rate({ step: 100, at: 0 }, { step: 300, at: 500 })).toBe(400);
});

test('there is no rate before the second sample', () => {
  expect(rate(undefined, { step: 300, at: 500 })).toBeUndefined();
});

test('there is no rate after a recovery to an earlier step', () => {
  expect(rate({ step: 300, at: 0 }, { step: 100, at: 500 })).toBeUndefined();
});

test('the line shows the step, the rate and the tasks', () => {
  const tasks = { alive: 4, all: 5 };
  expect(progressLine(12_345, 411.6, tasks, 50_000)).toBe(
    'step 12345 of 50000 · 412 steps/s · 4 of 5 tasks alive',
  );
  expect(progressLine(50_002, 411.6, tasks, 50_000)).toContain('step 50000 of 50000 (+2 in flight) · ');
  expect(progressLine(undefined, undefined, tasks)).toBe('no step yet · 4 of 5 tasks alive');
});

test('the line of a task shows its state, its step and its process', () => {
  const process = { label: 'ps 0', task: taskId('ps', 0), pid: 7, isRunning: true, restarts: 0 };
  const member = { pid: 7, status: 'alive', step: 12 } as never;
  expect(taskLine(process, member, 8)).toBe('ps 0     │ alive · step 12 · pid 7');
  expect(taskLine(process, undefined, 4)).toBe('ps 0 │ starting · pid 7');
  expect(taskLine({ ...process, pid: 8, restarts: 1 }, member, 4)).toBe(
    'ps 0 │ starting · pid 8 · restart 1',
  );
  expect(taskLine({ ...process, isRunning: false }, member, 4)).toBe('ps 0 │ ended · step 12 · pid 7');
});

test('a task counts as alive when its current process has joined the cluster', () => {
  const process = { label: 'ps 0', task: taskId('ps', 0), pid: 7, isRunning: true, restarts: 0 };
  const member = (fields: object) => ({ pid: 7, status: 'alive', step: null, ...fields }) as never;
  expect(hasJoined(process, member({}))).toBe(true);
  expect(hasJoined(process, undefined)).toBe(false);
  expect(hasJoined({ ...process, pid: 8 }, member({}))).toBe(false);
  expect(hasJoined({ ...process, isRunning: false }, member({}))).toBe(false);
  expect(hasJoined(process, member({ status: 'suspect' }))).toBe(false);
});
