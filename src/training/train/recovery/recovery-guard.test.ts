import { describe, expect, it } from 'vitest';
import { RecoveryGuard } from './recovery-guard.js';

describe('RecoveryGuard', () => {
  it('aborts work when a recovery begins, and waits for its end', async () => {
    const recoveryGuard = new RecoveryGuard();
    const order: string[] = [];
    const work = recoveryGuard.during(
      'A save',
      (signal) =>
        new Promise<void>((_, reject) =>
          signal.addEventListener('abort', () =>
            setTimeout(() => {
              order.push('work ended');
              reject(new Error('aborted'));
            }, 20),
          ),
        ),
    );
    const outcome = expect(work).rejects.toThrow('aborted');
    await recoveryGuard.suspend();
    order.push('recovery');
    await outcome;
    expect(order).toEqual(['work ended', 'recovery']);
  });

  it('rejects work until the cluster is complete again', async () => {
    const recoveryGuard = new RecoveryGuard();
    await recoveryGuard.suspend();
    expect(recoveryGuard.isStable).toBe(false);
    await expect(recoveryGuard.during('A save', async () => 1)).rejects.toThrow(
      /A save is not possible while/,
    );
    recoveryGuard.resume();
    expect(await recoveryGuard.during('A save', async () => 1)).toBe(1);
  });

  it('lets the signal of the caller abort work too', async () => {
    const stop = new AbortController();
    const seen = new RecoveryGuard().during(
      'A save',
      async (signal) => {
        stop.abort();
        return signal.aborted;
      },
      stop.signal,
    );
    expect(await seen).toBe(true);
  });
});
