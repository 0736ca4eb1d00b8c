/** All elements of a dataset, as plain JavaScript values. */
import { isShoalError } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Dataset } from '../dataset/dataset.js';

/** Numbers, text (one character a byte) and arrays; what JSON can hold. */
export function plain(value: unknown): unknown {
  if (value instanceof Tensor) {
    const listed = plain(value.toArray());
    value.dispose();
    return listed;
  }
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1');
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  }
  return value;
}

/** Runs `next` until the end; gives up after `limit` runs. */
export async function drainFetch(session: Session, next: object, limit = 10_000): Promise<unknown[]> {
  const found: unknown[] = [];
  for (let i = 0; i < limit; i++) {
    try {
      found.push(plain(await session.run(next)));
    } catch (error) {
      if (isShoalError(error, 'SHOAL_TF_OUT_OF_RANGE')) return found;
      throw error;
    }
  }
  throw new Error(`There is no end after ${limit} elements`);
}

/** The elements of a dataset that `make` builds in this graph. */
export async function drain(graph: Graph, make: () => Dataset<unknown>): Promise<unknown[]> {
  const { iterator, next } = graph.asDefault(() => {
    const made = make().makeInitializableIterator();
    return { iterator: made, next: made.getNext() as object };
  });
  await using session = Session.open({ graph });
  await session.run(iterator.initializer);
  return await drainFetch(session, next);
}
