import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { joinSignals } from './joined-signal.js';

it('fires with any of its sources, with the reason', () => {
  const [a, b] = [new AbortController(), new AbortController()];
  using joined = joinSignals(a.signal, undefined, b.signal);
  expect(joined.signal.aborted).toBe(false);
  b.abort('why');
  a.abort('later');
  expect(joined.signal.reason).toBe('why');
});

it('has fired if a source has', () => {
  const a = new AbortController();
  a.abort('before');
  using joined = joinSignals(new AbortController().signal, a.signal);
  expect(joined.signal.reason).toBe('before');
});

it('of one signal is that signal', () => {
  const { signal } = new AbortController();
  expect(joinSignals(signal, undefined, signal).signal).toBe(signal);
});

it('leaves nothing at its sources', async () => {
  const [a, b] = [new AbortController(), new AbortController()];
  const joined = joinSignals(a.signal, b.signal);
  joined[Symbol.dispose]();
  a.abort();
  expect(joined.signal.aborted).toBe(false);
  await new Promise(setImmediate);
  expect([a, b].map(({ signal }) => getEventListeners(signal, 'abort').length)).toEqual([0, 0]);
});
