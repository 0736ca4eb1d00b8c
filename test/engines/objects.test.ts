/** Queues and datasets on both engines: objects of one task that the runs of others use. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClusterSession } from '../../src/distributed/cluster/runtime/cluster-session.js';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import { ENGINES, EngineCluster, ON_CLUSTER, plain } from './engine-cluster.js';

describe.each(ENGINES)('engine %s', (engine) => {
  let cluster: EngineCluster;
  beforeAll(async () => {
    cluster = await EngineCluster.start(engine);
  });
  afterAll(() => cluster.close());

  /** A queue on a ps, as each worker sees it. */
  const queueOn = (name: string, capacity = 4) => {
    const graph = new Graph();
    const parts = graph.asDefault(() => {
      const queue = tf.device(ON_CLUSTER.ps[1], () =>
        tf.train.fifoQueue({
          capacity,
          dtypes: ['float32', 'string'],
          shapes: [[2], []],
          sharedName: name,
          name,
        }),
      );
      const value = tf.placeholder({ shape: [2] });
      const word = tf.placeholder({ dtype: 'string', shape: [] });
      return {
        value,
        word,
        enqueue: queue.enqueue([value, word]),
        dequeue: queue.dequeue({ name: `${name}_dequeue` }) as [Output, Output],
        many: queue.dequeueMany(3) as [Output, Output],
        close: queue.close(),
        cancel: queue.close({ cancelPendingEnqueues: true }),
        size: queue.size(),
      };
    });
    return { graph, ...parts };
  };
  const enqueue = (session: ClusterSession, queue: ReturnType<typeof queueOn>, at: number) =>
    session.run(queue.enqueue, {
      feeds: [
        [queue.value, [at, -at]],
        [queue.word, `element ${at}`],
      ],
    });
  const element = (at: number) => [[at, -at], `element ${at}`];

  describe('a queue', () => {
    it('passes elements of one worker to another, in order; each waits for the other', async () => {
      const [from, to] = [queueOn('order'), queueOn('order')];
      await using producer = cluster.session(from.graph, 0);
      await using consumer = cluster.session(to.graph, 1);
      const count = 20;
      const produce = async () => {
        for (let i = 0; i < count; i++) await enqueue(producer, from, i);
      };
      const consume = async () => {
        const found: unknown[] = [];
        for (let i = 0; i < count; i++) found.push(plain(await consumer.run(to.dequeue)));
        return found;
      };
      const [found] = await Promise.all([consume(), produce()]);
      expect(found).toEqual(Array.from({ length: count }, (_, i) => element(i)));
    });

    it('gives several elements at once', async () => {
      const queue = queueOn('many');
      await using session = cluster.session(queue.graph);
      for (let i = 0; i < 3; i++) await enqueue(session, queue, i);
      const [values, words] = plain(await session.run(queue.many)) as [number[][], string[]];
      expect(values.map((value, at) => [value, words[at]])).toEqual([0, 1, 2].map(element));
    });

    it('that is closed gives its elements, and then OUT_OF_RANGE, also to those that wait', async () => {
      const [own, other] = [queueOn('closed'), queueOn('closed')];
      await using session = cluster.session(own.graph, 0);
      await using waiting = cluster.session(other.graph, 1);
      await enqueue(session, own, 1);
      expect(plain(await waiting.run(other.dequeue))).toEqual(element(1));
      const last = waiting.run(other.dequeue).catch((reason: unknown) => reason);
      await session.run(own.size);
      await session.run(own.close);
      const ended = { code: 'SHOAL_TF_OUT_OF_RANGE', op: 'closed_dequeue' };
      expect(await last).toMatchObject(ended);
      await expect(session.run(own.dequeue)).rejects.toMatchObject(ended);
    });

    it('that is closed with cancellation ends an enqueue that waits for space', async () => {
      const [own, other] = [queueOn('cancelled', 1), queueOn('cancelled', 1)];
      await using session = cluster.session(own.graph, 0);
      await using blocked = cluster.session(other.graph, 1);
      await enqueue(session, own, 1);
      const waiting = enqueue(blocked, other, 2).catch((reason: unknown) => reason);
      await blocked.run(other.size);
      await session.run(own.cancel);
      expect(await waiting).toMatchObject({ code: expect.stringMatching(/^SHOAL_TF_(CANCELLED|ABORTED)$/) });
      expect(plain(await session.run(own.dequeue))).toEqual(element(1));
    });
  });

  it.each(['worker', 'ps'] as const)(
    'a dataset of a %s gives its elements once, to the end',
    async (where) => {
      const device = where === 'worker' ? ON_CLUSTER.worker : ON_CLUSTER.ps[0];
      const graph = new Graph();
      const { next, sum, total, init, begin } = graph.asDefault(() => {
        const iterator = tf.device(device, () =>
          tf.data
            .range(10)
            .map((i) => i.mul(i))
            .batch(3)
            .iterator({ name: `squares_${where}` }),
        );
        const next = iterator.getNext({ name: `next_${where}` });
        const total = tf.device(ON_CLUSTER.ps[1], () =>
          tf.variable(`total_${where}`, { dtype: 'int64', initializer: 0n, shape: [] }),
        );
        const sum = total.assignAdd(tf.device(ON_CLUSTER.worker, () => next.sum()));
        return {
          next,
          sum,
          total: total.read(),
          init: tf.globalVariablesInitializer(),
          begin: iterator.initializer,
        };
      });
      await using session = cluster.session(graph);
      await session.run([init, begin]);
      for (let epoch = 0; epoch < 2; epoch++) {
        const found: bigint[] = [];
        for (let i = 0; i < 4; i++) found.push(...(plain((await session.run([next, sum]))[0]) as bigint[]));
        expect(found).toEqual([0, 1, 4, 9, 16, 25, 36, 49, 64, 81].map(BigInt));
        await expect(session.run([next, sum])).rejects.toMatchObject({
          code: 'SHOAL_TF_OUT_OF_RANGE',
          op: `next_${where}`,
        });
        await session.run(begin);
      }
      expect((await session.run(total)).number()).toBe(2 * 285);
    },
  );
});
