import { describe, expect, it } from 'vitest';
import { backoffMs } from './backoff.js';
import { sleep, withDeadline } from './deadline.js';

const never = () => new Promise<never>(() => {});

describe('withDeadline', () => {
  it('passes a value through', async () => {
    await expect(withDeadline(Promise.resolve(7), 'x', { timeoutMs: 1000 })).resolves.toBe(7);
  });

  it('names the operation in the timeout error', async () => {
    await expect(withDeadline(never(), 'the ps', { timeoutMs: 5 })).rejects.toMatchObject({
      code: 'SHOAL_TIMEOUT',
      message: 'the ps timed out after 5 ms',
    });
  });

  it('rejects with the reason if the signal fires before or during the wait', async () => {
    const before = AbortSignal.abort('stop');
    await expect(withDeadline(never(), 'x', { signal: before })).rejects.toMatchObject({
      code: 'SHOAL_ABORTED',
      cause: 'stop',
    });
    const controller = new AbortController();
    const waiting = withDeadline(never(), 'x', { signal: controller.signal });
    controller.abort('later');
    await expect(waiting).rejects.toMatchObject({ code: 'SHOAL_ABORTED', cause: 'later' });
  });
});

describe('sleep', () => {
  it('rejects early when its signal fires', async () => {
    const controller = new AbortController();
    const waiting = sleep(60_000, controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  });
});

describe('backoffMs', () => {
  it('grows to its maximum and stays within 50 to 100 % of it', () => {
    const options = { baseMs: 100, maxMs: 1000 };
    expect(backoffMs(0, options, () => 0)).toBe(50);
    expect(backoffMs(0, options, () => 1)).toBe(100);
    expect(backoffMs(9, options, () => 1)).toBe(1000);
  });
});
