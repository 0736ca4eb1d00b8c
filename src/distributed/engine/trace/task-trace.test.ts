import { expect, test, vi } from 'vitest';
import { TaskTrace } from './task-trace.js';

const ask = (after: number, more = true, trace = 'trace-one') => ({ trace, after, more });
const names = ({ events }: ReturnType<TaskTrace['read']>) =>
  events.map((event) => (event.kind === 'span' ? event.what : event.kind));

test('records while it is read, and nothing else', () => {
  const trace = new TaskTrace({ now: () => 5 });
  trace.span('steps', 'too early', 1);
  expect(trace.isOn).toBe(false);
  expect(trace.read(ask(0))).toEqual({ clock: 5000, events: [], next: 0, hasMore: false, dropped: 0 });
  expect(trace.isOn).toBe(true);
  trace.span('steps', 'one', 1);
  expect(trace.read(ask(0)).events).toEqual([
    { kind: 'span', row: 'steps', what: 'one', from: 4000, to: 5000 },
  ]);
  trace.span('steps', 'two', 1);
  // An answer that was lost is repeated.
  expect(names(trace.read(ask(0)))).toEqual(['one', 'two']);
  trace.span('steps', 'three', 1);
  expect(trace.read(ask(2, false))).toMatchObject({ next: 3, hasMore: false });
  trace.span('steps', 'too late', 1);
  expect(trace.isOn).toBe(false);
  expect(names(trace.read(ask(0, true, 'trace-two')))).toEqual([]);
  trace.end();
});

test('a reader that is slow costs a bounded memory', () => {
  const trace = new TaskTrace({ mostEvents: 6000 });
  trace.read(ask(0));
  for (let i = 0; i < 7000; i++) trace.span('runs', String(i), 0);
  const first = trace.read(ask(0));
  expect(first).toMatchObject({ next: 5000, hasMore: true, dropped: 1000 });
  const second = trace.read(ask(first.next, false));
  expect(second).toMatchObject({ next: 6000, hasMore: false });
  expect(names(second).at(-1)).toBe('5999');
});

test('a task has one trace at a time, and one that nobody reads ends', () => {
  vi.useFakeTimers();
  try {
    const trace = new TaskTrace();
    trace.read(ask(0));
    expect(() => trace.read(ask(0, true, 'trace-two'))).toThrow(/another command traces this task/);
    trace.span('runs', 'lost', 0);
    vi.advanceTimersByTime(4000);
    trace.read(ask(0));
    vi.advanceTimersByTime(4000);
    expect(trace.isOn).toBe(true);
    vi.advanceTimersByTime(2000);
    expect(trace.isOn).toBe(false);
    expect(() => trace.read(ask(1))).toThrow(/the trace of this task has ended/);
    expect(names(trace.read(ask(0, true, 'trace-two')))).toEqual([]);
    trace.end();
  } finally {
    vi.useRealTimers();
  }
});
