import { expect, it } from 'vitest';
import { taskId } from '../../spec/task-id.js';
import { Admissions } from './admissions.js';

const self = taskId('ps', 0);
const process = (incarnation: number, nonce = `process ${incarnation}`) => ({
  task: taskId('worker', 0),
  incarnation,
  nonce,
});
const settled = async (promise: Promise<unknown> | undefined): Promise<boolean> => {
  const outcome = await Promise.race([
    promise?.then(() => 'over'),
    new Promise((done) => setTimeout(done, 20)),
  ]);
  return outcome === 'over';
};

it('lets a successor begin when the work of its predecessor is over', async () => {
  const admissions = new Admissions(() => self);
  const old = admissions.admit(process(1), 'stream', 'a');
  expect([old.ready, old.signal.aborted]).toEqual([undefined, false]);
  const next = admissions.admit(process(2), 'call', 'b');
  expect(old.signal.aborted).toBe(true);
  expect(await settled(next.ready)).toBe(false);
  old.release();
  await next.ready;
  expect(next.signal.aborted).toBe(false);
});

it('waits for what a predecessor holds, and for all predecessors', async () => {
  const admissions = new Admissions(() => self);
  let finish = () => {};
  const first = admissions.admit(process(1), 'call', 'a');
  first.hold(new Promise<void>((resolve) => (finish = resolve)));
  first.release();
  const second = admissions.admit(process(2), 'call', 'b');
  const third = admissions.admit(process(3), 'call', 'c');
  expect(second.signal.aborted).toBe(true);
  second.release();
  expect(await settled(third.ready)).toBe(false);
  finish();
  await third.ready;
});

it('does not end the work of the process itself, which may raise its incarnation, nor that of other tasks', () => {
  const admissions = new Admissions(() => self);
  const own = admissions.admit(process(1, 'same'), 'stream', 'a');
  const other = admissions.admit({ ...process(1), task: taskId('worker', 1) }, 'stream', 'a');
  const raised = admissions.admit(process(5, 'same'), 'call', 'b');
  admissions.supersede(process(6, 'same'));
  expect([own, other, raised].map(({ signal, ready }) => [signal.aborted, ready])).toEqual([
    [false, undefined],
    [false, undefined],
    [false, undefined],
  ]);
});

it('ends the work of predecessors when a successor is known, and the streams of a lost process', () => {
  const admissions = new Admissions(() => self);
  const call = admissions.admit(process(1), 'call', 'a');
  const stream = admissions.admit(process(1), 'stream', 'b');
  admissions.endStreams(process(1));
  expect([call.signal.aborted, stream.signal.aborted]).toEqual([false, true]);
  admissions.supersede(process(2));
  expect(call.signal.aborted).toBe(true);
});

it('names the work that does not end', async () => {
  const admissions = new Admissions(() => self, { endMs: 20 });
  admissions.admit(process(1), 'call', 'order restore');
  const next = admissions.admit(process(2), 'call', 'order restore');
  await expect(next.ready).rejects.toMatchObject({
    code: 'SHOAL_UNREACHABLE',
    message: '/job:ps/task:0 is still executing order restore of the earlier process of /job:worker/task:0',
  });
});
