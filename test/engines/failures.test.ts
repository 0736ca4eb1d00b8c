/** How runs fail on both engines: the code and the op of an error, cancellation, deadlines, close. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ShoalError } from '../../src/base/errors/errors.js';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Output } from '../../src/tensorflow/graph/operation.js';
import * as raw from '../../src/tensorflow/ops/generated/index.js';
import { ENGINES, EngineCluster, ON_CLUSTER } from './engine-cluster.js';

const PLACES = { worker: ON_CLUSTER.worker, ps: ON_CLUSTER.ps[1] } as const;

describe.each(ENGINES)('engine %s', (engine) => {
  let cluster: EngineCluster;
  beforeAll(async () => {
    cluster = await EngineCluster.start(engine);
  });
  afterAll(() => cluster.close());

  /** Runs that wait for a queue that stays empty, the number of those that have begun, and a value. */
  const waiting = (name: string) => {
    const graph = new Graph();
    const parts = graph.asDefault(() => {
      const [one, begun] = tf.device(ON_CLUSTER.ps[0], () => [
        tf.variable(`${name}/one`, { initializer: 1 }),
        tf.variable(`${name}/begun`, { initializer: 0 }),
      ]) as [ReturnType<typeof tf.variable>, ReturnType<typeof tf.variable>];
      const dequeue = (device: string, at: string) => {
        const options = {
          capacity: 2,
          dtypes: ['float32'],
          shapes: [[]],
          sharedName: `${name}_${at}`,
        } as const;
        const queue = tf.device(device, () => tf.train.fifoQueue(options));
        return tf.controlDependencies([begun.assignAdd(1)], () => queue.dequeue()[0] as Output);
      };
      return {
        dequeue: { ps: dequeue(PLACES.ps, 'ps'), worker: dequeue(PLACES.worker, 'worker') },
        init: tf.globalVariablesInitializer(),
        value: one.read(),
        begun: begun.read(),
      };
    });
    return { graph, ...parts };
  };

  describe.each(Object.entries(PLACES))('an op on a %s that fails', (job, device) => {
    const cases: Readonly<Record<string, () => Output>> = {
      INVALID_ARGUMENT: () =>
        raw.reshape(tf.placeholderWithDefault([1, 2, 3], [null]), tf.constant(Int32Array.of(2)), {
          name: `INVALID_ARGUMENT_${job}`,
        }),
      NOT_FOUND: () => raw.readFile(tf.constant('/there/is/no/file'), { name: `NOT_FOUND_${job}` }),
      OUT_OF_RANGE: () =>
        tf.data
          .range(0)
          .iterator({ name: `none_${job}` })
          .getNext({ name: `OUT_OF_RANGE_${job}` }),
      FAILED_PRECONDITION: () =>
        raw.readVariableOp(raw.varHandleOp({ dtype: 'float32', shape: [], sharedName: `unset_${job}` }), {
          dtype: 'float32',
          name: `FAILED_PRECONDITION_${job}`,
        }),
    };

    it.each(Object.entries(cases))('with %s: the run has its code and its name', async (code, build) => {
      const graph = new Graph();
      const { failing, result, begin } = graph.asDefault(() => {
        const failing = tf.device(device, build);
        // The worker waits for it, whichever task it is on.
        const result = tf.device(ON_CLUSTER.worker, () => raw.identity(failing));
        return { failing, result, begin: tf.tablesInitializer() };
      });
      await using session = cluster.session(graph);
      await session.run(begin);
      for (let round = 0; round < 2; round++) {
        const error = (await session.run(result).catch((reason: unknown) => reason)) as ShoalError;
        expect(error).toMatchObject({ code: `SHOAL_TF_${code}`, op: failing.op.name });
      }
    });
  });

  describe.each(['ps', 'worker'] as const)('a run that waits on a %s', (where) => {
    it('ends when its signal fires, with SHOAL_ABORTED and the reason; other runs continue', async () => {
      const { graph, dequeue, init, value, begun } = waiting(`aborted_${where}`);
      await using session = cluster.session(graph);
      await session.run(init);
      const stop = new AbortController();
      const run = session.run(dequeue[where], { signal: stop.signal }).catch((reason: unknown) => reason);
      await expect.poll(async () => (await session.run(begun)).number(), { timeout: 60_000 }).toBe(1);
      stop.abort('not needed any more');
      expect(await run).toMatchObject({ code: 'SHOAL_ABORTED', cause: 'not needed any more' });
      expect((await session.run(value)).number()).toBe(1);
      const late = session.run(value, { signal: stop.signal });
      await expect(late).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    });

    it('ends at its deadline with DEADLINE_EXCEEDED; other runs continue', async () => {
      const { graph, dequeue, init, value } = waiting(`late_${where}`);
      await using session = cluster.session(graph);
      await session.run(init);
      await expect(session.run(dequeue[where], { timeoutMs: 300 })).rejects.toMatchObject({
        code: 'SHOAL_TF_DEADLINE_EXCEEDED',
      });
      expect((await session.run(value, { timeoutMs: 60_000 })).number()).toBe(1);
    });

    it('ends when its session is closed, which later runs report', async () => {
      const { graph, dequeue, init, value, begun } = waiting(`closed_${where}`);
      const session = cluster.session(graph);
      await session.run(init);
      const runs = Array.from({ length: 3 }, () =>
        session.run(dequeue[where]).catch((reason: unknown) => reason),
      );
      await expect
        .poll(async () => (await session.run(begun)).number(), { timeout: 60_000 })
        .toBe(runs.length);
      await session.close();
      for (const error of await Promise.all(runs)) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^SHOAL_(ABORTED|TF_CANCELLED)$/) });
      }
      await expect(session.run(value)).rejects.toMatchObject({ code: 'SHOAL_DISPOSED' });
      // Its task and the ps continue.
      await using next = cluster.session(graph);
      expect((await next.run(value)).number()).toBe(1);
    });
  });
});
