import { expect, it } from 'vitest';
import { isStepAlarm, StepAlarm } from './step-alarm.js';

/** A read that ends when its step is given. */
function pendingRead() {
  let end = (_: number) => {};
  const step = new Promise<number>((resolve) => {
    end = resolve;
  });
  return { read: () => step, end };
}

const counter = {};
const reads = (step: number) => async () => step;

it('a step that falls is an alarm, which names the cause as far as it is known', async () => {
  const alarm = new StepAlarm();
  const raised: string[] = [];
  alarm.onRaised((error) => raised.push(error.message));
  expect(await alarm.read(counter, reads(7))).toBe(7);
  alarm.note('/job:worker/task:0 was replaced');
  const error = await alarm.read(counter, reads(3)).catch((error: unknown) => error);
  expect(isStepAlarm(error)).toBe(true);
  expect(raised).toHaveLength(1);
  expect(raised[0]).toMatch(/fell from 7 to 3.*task:0 was replaced/);
  expect(() => alarm.throwIfRaised()).toThrow(/fell from 7 to 3/);
  // It stays, although the step rises again.
  await expect(alarm.read(counter, reads(9))).rejects.toThrow(/fell from 7 to 3/);
});

it('a step may be lower after a restore or an initialization', async () => {
  const alarm = new StepAlarm();
  await alarm.read(counter, reads(7));
  alarm.reset();
  expect(await alarm.read(counter, reads(3))).toBe(3);
  await expect(alarm.read(counter, reads(2))).rejects.toThrow(/fell from 3 to 2/);
});

it('reads that overlap each other, or a restore, are not compared', async () => {
  const alarm = new StepAlarm();
  const [slow, torn] = [pendingRead(), pendingRead()];
  const first = alarm.read(counter, slow.read);
  await alarm.read(counter, reads(9));
  slow.end(8);
  expect(await first).toBe(8);
  const second = alarm.read(counter, torn.read);
  alarm.reset();
  torn.end(1);
  expect(await second).toBe(1);
  await expect(alarm.read(counter, reads(0))).resolves.toBe(0);
});

it('a chief that starts again ends it', async () => {
  const alarm = new StepAlarm();
  await alarm.read(counter, reads(7));
  await alarm.read(counter, reads(3)).catch(() => {});
  alarm.clear();
  expect(await alarm.read(counter, reads(3))).toBe(3);
});

it('compares the steps of each counter with its own', async () => {
  const alarm = new StepAlarm();
  await alarm.read(counter, reads(7));
  expect(await alarm.read({}, reads(3))).toBe(3);
  await expect(alarm.read(counter, reads(6))).rejects.toThrow(/fell from 7 to 6/);
});
