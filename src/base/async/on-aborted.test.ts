import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { onAborted } from './on-aborted.js';

it('calls each that still waits once, over one listener', () => {
  const controller = new AbortController();
  const { signal } = controller;
  const called: string[] = [];
  onAborted(signal, () => called.push('a'));
  const stop = onAborted(signal, () => called.push('b'));
  onAborted(signal, ({ reason }) => called.push(`c: ${reason}`));
  stop();
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  controller.abort('enough');
  expect(called).toEqual(['a', 'c: enough']);
});

it('removes its listener when nothing waits any more, and adds it again', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const listeners = () => getEventListeners(signal, 'abort').length;
  const first = onAborted(signal, () => {});
  first();
  const second = onAborted(signal, () => {});
  await new Promise((done) => setImmediate(done));
  expect(listeners()).toBe(1);
  second();
  await new Promise((done) => setImmediate(done));
  expect(listeners()).toBe(0);
  let isCalled = false;
  onAborted(signal, () => {
    isCalled = true;
  });
  controller.abort();
  expect(isCalled).toBe(true);
});
