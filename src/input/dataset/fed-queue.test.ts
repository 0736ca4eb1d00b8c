import { describe, expect, test } from 'vitest';
import { ShoalError } from '../../errors/errors.js';
import { Graph } from '../../graph/graph.js';
import { Session } from '../../session/session.js';
import { drainFetch } from '../testing/drain.js';
import { FedQueue, InputLost, type Runner } from './fed-queue.js';

const NUMBER = { kind: 'tensor', dtype: 'int64', shape: [] } as const;

function opened() {
  const graph = new Graph();
  const parts = graph.asDefault(() => {
    const queue = new FedQueue<unknown>(NUMBER, { capacity: 8 });
    const iterator = queue.dataset.iterator();
    return { queue, iterator, next: iterator.getNext() as object };
  });
  return { ...parts, session: Session.open({ graph }) };
}

/** Runs that are held back, given up or not, until somebody lets them go. */
function slow(session: Session) {
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const runner: Runner = {
    run: async (fetches, options) => {
      await gate;
      return session.run(fetches as never, options as never);
    },
  };
  return { runner, letGo: () => letGo() };
}

describe('a queue that is fed', () => {
  test('throws away what an earlier pass has left', async () => {
    const { queue, iterator, next, session } = opened();
    await using _ = session;
    await queue.begin(session);
    await queue.push(session, [[1n], [2n]]);
    await queue.end(session);
    await queue.begin(session);
    await queue.push(session, [[3n]]);
    await queue.end(session);
    await session.run(iterator.initializer);
    expect(await drainFetch(session, next)).toEqual([3]);
  });

  test('waits for a run of an earlier pass that was given up, and throws away what it brings', async () => {
    const { queue, iterator, next, session } = opened();
    await using _ = session;
    await queue.begin(session);
    let returned = () => {};
    const late = new Promise<void>((resolve) => {
      returned = resolve;
    });
    // TensorFlow still has the run when its caller has given it up.
    const givingUp: Runner = {
      run: async (fetches, options) => {
        if (!options?.onBegun) return session.run(fetches as never, options as never);
        options.onBegun(
          late.then(() => session.run(fetches as never, { feeds: options.feeds } as never)) as never,
        );
        throw new ShoalError('SHOAL_ABORTED', 'given up');
      },
    };
    await expect(queue.push(givingUp, [[1n]])).rejects.toThrow('given up');
    const begun = queue.begin(session);
    returned();
    await begun;
    await queue.push(session, [[2n]]);
    await queue.end(session);
    await session.run(iterator.initializer);
    expect(await drainFetch(session, next)).toEqual([2]);
  });

  test('loses nothing of a pass to an earlier one that comes late', async () => {
    const { queue, iterator, next, session } = opened();
    await using _ = session;
    const { runner, letGo } = slow(session);
    const early = queue.begin(runner);
    const pass = await queue.begin(session);
    await queue.push(session, [[1n], [2n]]);
    letGo();
    await expect(early).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    // Nor is it ended by its release.
    await queue.release(session, pass - 1);
    await queue.push(session, [[3n]]);
    await queue.end(session);
    await session.run(iterator.initializer);
    expect(await drainFetch(session, next)).toEqual([1, 2, 3]);
  });
});

test('what says that a session was lost is told from other errors', () => {
  expect(InputLost.of(new ShoalError('SHOAL_TF_UNAVAILABLE', 'gone'))).toMatchObject({
    code: 'SHOAL_TF_UNAVAILABLE',
    message: 'The session of the input was lost: gone',
  });
  expect(InputLost.of(new ShoalError('SHOAL_TF_CANCELLED', 'closed'))).toBeUndefined();
  expect(InputLost.of(new Error('else'))).toBeUndefined();
});
