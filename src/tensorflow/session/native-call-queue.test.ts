import { expect, test } from 'vitest';
import { NativeCallQueue } from './native-call-queue.js';

test('runs as many calls as it has threads, and queues the rest in order', () => {
  const queue = new NativeCallQueue({ width: 2, extra: 0 });
  const started: number[] = [];
  const done: (() => void)[] = [];
  for (const i of [0, 1, 2, 3]) {
    queue.enter((leave) => {
      started.push(i);
      done.push(leave);
    });
  }
  expect(started).toEqual([0, 1]);
  done[1]?.();
  expect(started).toEqual([0, 1, 2]);
  done[0]?.();
  expect(started).toEqual([0, 1, 2, 3]);
});

test('rejects calls while abandoned calls hold all threads', () => {
  const queue = new NativeCallQueue({ width: 1, extra: 0 });
  queue.enter(() => {});
  const returned = queue.abandon();
  expect(queue.abandoned).toBe(1);
  expect(() => queue.enter(() => {})).toThrowError(
    expect.objectContaining({ code: 'SHOAL_TF_UNAVAILABLE', hint: expect.stringContaining('Restart') }),
  );
  returned();
  expect(queue.abandoned).toBe(0);
  expect(() => queue.enter(() => {})).not.toThrow();
});

test('a priority call starts although the queue is full, holds no slot, and counts as running until it returns', () => {
  const queue = new NativeCallQueue({ width: 1, extra: 0 });
  let leave = () => {};
  let overtakerReturned = () => {};
  queue.enter((done) => {
    leave = done;
  });
  queue.overtake((done) => {
    overtakerReturned = done;
  });
  expect(queue.running).toBe(2);
  leave();
  let entered = false;
  queue.enter(() => {
    entered = true;
  });
  expect(entered).toBe(true);
  overtakerReturned();
  expect(queue.running).toBe(1);
});

test('gives a waiting call an extra thread once no call has returned for a while', async () => {
  const queue = new NativeCallQueue({ width: 1, extra: 1 });
  const calls: unknown[] = [];
  const done: (() => void)[] = [];
  const enter = () =>
    queue.enter((leave, call) => {
      calls.push(call);
      done.push(leave);
    });
  enter();
  enter();
  enter();
  expect(calls).toHaveLength(1);
  await expect.poll(() => calls.length).toBe(2);
  expect(calls[1]).not.toBe(calls[0]);
  expect(queue.running).toBe(2);
  // Both are taken: the third waits for either.
  done[1]?.();
  await expect.poll(() => calls.length).toBe(3);
  done[0]?.();
  done[2]?.();
  expect(queue.running).toBe(0);
});
