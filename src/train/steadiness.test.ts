import { describe, expect, it } from 'vitest';
import { Steadiness } from './steadiness.js';

describe('steadiness', () => {
  it('gives up work when the cluster is lost, and waits for its end', async () => {
    const steadiness = new Steadiness();
    const order: string[] = [];
    const work = steadiness.during(
      'A save',
      (signal) =>
        new Promise<void>((_, reject) =>
          signal.addEventListener('abort', () =>
            setTimeout(() => {
              order.push('work ended');
              reject(new Error('given up'));
            }, 20),
          ),
        ),
    );
    const outcome = expect(work).rejects.toThrow('given up');
    await steadiness.lose();
    order.push('recovery');
    await outcome;
    expect(order).toEqual(['work ended', 'recovery']);
  });

  it('refuses work until the cluster is whole again', async () => {
    const steadiness = new Steadiness();
    await steadiness.lose();
    expect(steadiness.isSteady).toBe(false);
    await expect(steadiness.during('A save', async () => 1)).rejects.toThrow(/A save can not be while/);
    steadiness.find();
    expect(await steadiness.during('A save', async () => 1)).toBe(1);
  });

  it('lets a signal of the caller give up work too', async () => {
    const stop = new AbortController();
    const seen = new Steadiness().during(
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
