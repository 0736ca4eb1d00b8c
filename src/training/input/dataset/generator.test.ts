import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import { drainFetch, plain } from '../testing/drain.js';
import type { Dataset } from './dataset.js';
import { type ElementTypes, generator, startFeeders } from './generator.js';

/** The elements of one pass through a dataset of generators. */
async function collect(make: () => Dataset<unknown>): Promise<unknown[]> {
  const graph = new Graph();
  const { iterator, next } = graph.asDefault(() => {
    const iterator = make().makeInitializableIterator();
    return { iterator, next: iterator.getNext() as object };
  });
  await using session = Session.open({ graph });
  const feeding = startFeeders(session);
  try {
    await session.run(iterator.initializer);
    return await drainFetch(session, next);
  } finally {
    await feeding.stop();
  }
}

const POINT = { x: { dtype: 'float32', shape: [2] }, n: { dtype: 'int64' } } as const satisfies ElementTypes;

function* points(count: number) {
  for (let i = 0; i < count; i++) yield { x: [i, i + 0.5], n: BigInt(i) };
}

const expected = (count: number) => Array.from({ length: count }, (_, i) => ({ x: [i, i + 0.5], n: i }));

describe('a generator', () => {
  test('yields the records of a synchronous source', async () => {
    expect(await collect(() => generator(() => points(200), { element: POINT }))).toEqual(expected(200));
  });

  test('yields more records than its queue can hold', async () => {
    const made = await collect(() => generator(() => points(50), { element: POINT, capacity: 3 }));
    expect(made).toEqual(expected(50));
  });

  test('yields the records of a slow asynchronous source', async () => {
    async function* slowly() {
      for (const point of points(5)) {
        await pause(2);
        yield point;
      }
    }
    expect(await collect(() => generator(slowly, { element: POINT }))).toEqual(expected(5));
  });

  test('is called again for each pass', async () => {
    let passes = 0;
    const source = () => points(++passes);
    const made = await collect(() => generator(source, { element: POINT }).repeat(3));
    expect(made).toEqual([...expected(1), ...expected(2), ...expected(3)]);
  });

  test('accepts records of different sizes, and strings', async () => {
    const words = [{ words: ['a'] }, { words: ['b', 'c'] }, { words: [] }];
    const element = { words: { dtype: 'string', shape: [null] } } as const;
    const made = await collect(() => generator(() => words, { element }).paddedBatch(3));
    expect(made).toEqual([
      {
        words: [
          ['a', ''],
          ['b', 'c'],
          ['', ''],
        ],
      },
    ]);
  });

  test('copies long strings out of the memory of the feed', async () => {
    const text = (i: number) => `${i}: ${'a rather long string '.repeat(20)}`;
    const source = () => Array.from({ length: 300 }, (_, i) => text(i));
    const made = await collect(() => generator(source, { element: { dtype: 'string' } }));
    expect(made).toEqual(source());
  });

  test.each([
    ['with any error', new Error('out of ink')],
    ['like a lost session', new ShoalError('SHOAL_TF_UNAVAILABLE', 'out of ink')],
    ['like a closed session', new ShoalError('SHOAL_DISPOSED', 'out of ink')],
  ])('that fails %s ends the dataset, and its error is reported', async (_, error) => {
    const graph = new Graph();
    function* broken() {
      yield* points(2);
      throw error;
    }
    const next = graph.asDefault(() => {
      const iterator = generator(broken, { element: POINT }).iterator();
      return { iterator, value: iterator.getNext() };
    });
    await using session = Session.open({ graph });
    await session.run(next.iterator.initializer);
    const feeding = startFeeders(session);
    await expect(feeding.done).rejects.toBe(error);
    await drainFetch(session, next.value);
  });

  test('names the missing field of a record', async () => {
    const graph = new Graph();
    graph.asDefault(() => generator(() => [{ x: [1, 2] }] as never, { element: POINT }));
    await using session = Session.open({ graph });
    await expect(startFeeders(session).done).rejects.toThrow("lacks 'n'");
  });

  test('lets a session be closed while a step waits for a record', async () => {
    const graph = new Graph();
    const { iterator, next } = graph.asDefault(() => {
      const iterator = generator(() => points(1), { element: POINT })
        .repeat()
        .makeInitializableIterator();
      return { iterator, next: iterator.getNext() };
    });
    const session = Session.open({ graph });
    await session.run(iterator.initializer);
    const waiting = session.run(next);
    const outcome = waiting.then(plain, (error: Error) => error.message);
    await pause(50);
    await session.close();
    expect(await outcome).toMatch(/CANCELLED|closed|cancel/i);
  });
});
