import { expect, test } from 'vitest';
import { NativeCallQueue } from './native-call-queue.js';

test('a lane lets in as many calls as it is wide, and the rest in order as places come free', () => {
  const lane = new NativeCallQueue(2);
  const started: number[] = [];
  const done: (() => void)[] = [];
  for (const i of [0, 1, 2, 3]) {
    lane.enter((leave) => {
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

test('a lane whose places are all held by calls that were given up refuses more, until one returns', () => {
  const lane = new NativeCallQueue(1);
  lane.enter(() => {});
  const returned = lane.abandon();
  expect(lane.abandoned).toBe(1);
  expect(() => lane.enter(() => {})).toThrowError(
    expect.objectContaining({ code: 'SHOAL_TF_UNAVAILABLE', message: expect.stringContaining('Restart') }),
  );
  returned();
  expect(lane.abandoned).toBe(0);
  expect(() => lane.enter(() => {})).not.toThrow();
});

test('a call that overtakes starts in a full lane, takes no place in it, and counts until it has returned', () => {
  const lane = new NativeCallQueue(1);
  let leave = () => {};
  let overtakerReturned = () => {};
  lane.enter((done) => {
    leave = done;
  });
  lane.overtake((done) => {
    overtakerReturned = done;
  });
  expect(lane.running).toBe(2);
  leave();
  let entered = false;
  lane.enter(() => {
    entered = true;
  });
  expect(entered).toBe(true);
  overtakerReturned();
  expect(lane.running).toBe(1);
});
