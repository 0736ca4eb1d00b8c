import { expect, it, vi } from 'vitest';
import { ExtraThreads } from './extra-threads.js';

const call = (threads: ExtraThreads): Promise<bigint> =>
  new Promise((resolve, reject) => {
    threads.call('TF_NewStatus', [], (error, result) => (error ? reject(error) : resolve(result)));
  });

it('keeps a thread for the next call, and ends it when there is none', { timeout: 120_000 }, async () => {
  const threads = new ExtraThreads({ idleMs: 200 });
  expect(threads.hasIdle).toBe(false);
  await call(threads);
  expect(threads.hasIdle).toBe(true);
  await call(threads);
  await vi.waitFor(() => expect(threads.hasIdle).toBe(false), { timeout: 60_000 });
  await call(threads);
});
