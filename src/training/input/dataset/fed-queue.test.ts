import { describe, expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import { Session } from '../../../tensorflow/session/session.js';
import { drainFetch } from '../testing/drain.js';
import { FedQueue, InputLost } from './fed-queue.js';

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

/** Delays runs, aborted or not, until `release` is called. */
function slow(session: Session) {
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const runner: Runner = {
    run: async (fetches, options) => {
      await gate;
      return session.run(fetches as never, options as never);
    },
  };
  return { runner, release: () => release() };
}

describe('a fed queue', () => {
  test('discards leftovers of an earlier pass', async () => {
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

  test('waits for an abandoned run of an earlier pass, and discards its elements', async () => {
    const { queue, iterator, next, session } = opened();
    await using _ = session;
    await queue.begin(session);
    let returned = () => {};
    const late = new Promise<void>((resolve) => {
      returned = resolve;
    });
    // TensorFlow continues the run after its caller has abandoned it.
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

  test('loses no elements of a pass to a delayed earlier one', async () => {
    const { queue, iterator, next, session } = opened();
    await using _ = session;
    const { runner, release } = slow(session);
    const early = queue.begin(runner);
    const pass = await queue.begin(session);
    await queue.push(session, [[1n], [2n]]);
    release();
    await expect(early).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    // The release of the earlier pass does not end it either.
    await queue.release(session, pass - 1);
    await queue.push(session, [[3n]]);
    await queue.end(session);
    await session.run(iterator.initializer);
    expect(await drainFetch(session, next)).toEqual([1, 2, 3]);
  });
});

test('session-lost errors are recognized', () => {
  expect(InputLost.of(new ShoalError('SHOAL_TF_UNAVAILABLE', 'gone'))).toMatchObject({
    code: 'SHOAL_TF_UNAVAILABLE',
    message: 'The session of the input was lost: gone',
  });
  expect(InputLost.of(new ShoalError('SHOAL_TF_CANCELLED', 'closed'))).toBeUndefined();
  expect(InputLost.of(new Error('else'))).toBeUndefined();
});
