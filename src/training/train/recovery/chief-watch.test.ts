import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Member } from '../../../distributed/cluster/membership/types.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { TaskEvents } from '../../../distributed/cluster/task/task-events.js';
import { ChiefWatch, type ChiefWatchOptions } from './chief-watch.js';

const [CHIEF, WORKER] = [taskId('worker', 0), taskId('worker', 1)];
const MINUTE_MS = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watched(
  finished: ChiefWatchOptions['finished'] = { returns: () => true, stopped: () => undefined },
) {
  const events = new TaskEvents();
  const lines: string[] = [];
  const member = (task: string) => ({ task, step: 42 }) as Member;
  const task = { task: WORKER, chief: CHIEF, events, member };
  const watch = new ChiefWatch({ task, finished, log: (line) => lines.push(line) });
  const emit = (type: 'lost' | 'left' | 'back', of = CHIEF) => {
    if (type === 'lost') events.emit({ type, member: member(of), why: 'refused' });
    else if (type === 'left') events.emit({ type, member: member(of) });
    else events.emit({ type, member: member(of), replaced: true });
  };
  return { watch, lines, emit };
}

it('logs the loss of the chief with the step, then every minute, until it is back', () => {
  const { watch, lines, emit } = watched();
  emit('lost');
  vi.advanceTimersByTime(2 * MINUTE_MS);
  emit('back');
  vi.advanceTimersByTime(5 * MINUTE_MS);
  watch[Symbol.dispose]();
  expect(lines).toEqual(
    ['is lost', 'has been lost for 1 min', 'has been lost for 2 min'].map(
      (how) =>
        `the chief, /job:worker/task:0, ${how}: nothing is saved, from about step 42 on until it is started again`,
    ),
  );
});

it('logs that the chief was preempted', () => {
  const { watch, lines, emit } = watched();
  emit('left');
  emit('back');
  watch[Symbol.dispose]();
  expect(lines).toEqual([
    expect.stringContaining('task:0, was preempted: nothing is saved, from about step 42 on'),
  ]);
});

it('logs that the chief has failed, and not that it has finished', () => {
  const failed = watched({ returns: () => false, stopped: () => 'failed' });
  failed.emit('left');
  vi.advanceTimersByTime(MINUTE_MS);
  failed.watch[Symbol.dispose]();
  expect(failed.lines).toEqual([
    expect.stringContaining('task:0, has failed: nothing is saved, from about step 42 on'),
    expect.stringContaining('task:0, has been away for 1 min: nothing is saved'),
  ]);
  const finished = watched({ returns: () => false, stopped: () => undefined });
  finished.emit('left');
  finished.watch[Symbol.dispose]();
  expect(finished.lines).toEqual([]);
});

it('does not log the loss of another task, or after the end of training', () => {
  const { watch, lines, emit } = watched();
  emit('lost', WORKER);
  watch[Symbol.dispose]();
  emit('lost');
  vi.advanceTimersByTime(MINUTE_MS);
  expect(lines).toEqual([]);
});
