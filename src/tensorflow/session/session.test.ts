import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import type { RunMetadata } from '../../base/proto/generated/config_pb.js';
import { tf } from '../../index.js';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { liveHandles } from '../native/handle.js';
import * as raw from '../ops/generated/index.js';
import { Tensor } from '../tensor/tensor.js';
import { Session } from './session.js';

let graph: Graph;
let session: Session;
let x: Output<'float32'>;
let y: Output<'float32'>;
let product: Output;
let doubled: Output;
beforeAll(() => {
  graph = new Graph();
  session = Session.open({ graph });
  graph.asDefault(() => {
    x = tf.placeholder({ shape: [], name: 'x' });
    y = tf.placeholder({ shape: [null, 2], name: 'y' });
    product = tf.mul(x, y, { name: 'product' });
    doubled = x.mul(2);
  });
});
afterAll(() => session.close());

const inGraph = <T>(body: () => T): T => graph.asDefault(body);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** An output that blocks until the queue is closed. */
function endless(): { waiting: Output; end: () => Promise<unknown> } {
  return inGraph(() => {
    const queue = raw.fifoQueueV2({ componentTypes: ['float32'] });
    const [waiting] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] }) as [Output];
    const feed = raw.queueEnqueueV2(queue, [tf.constant(1)]);
    return { waiting, end: () => session.run(feed) };
  });
}

describe('fetches', () => {
  const fed = { feeds: { x: 2, y: [[1, 2]] } };

  test('return values in the nesting of the request, also by name', async () => {
    const noOp = inGraph(() => tf.noOp());
    const result = await session.run(
      { a: product, list: [x, [y, 'product:0']] as const, op: noOp, nothing: null, deep: { er: { x } } },
      fed,
    );
    expectTypeOf(result.a).toEqualTypeOf<Tensor>();
    expectTypeOf(result.op).toEqualTypeOf<undefined>();
    expectTypeOf(result.deep.er.x).toEqualTypeOf<Tensor<'float32'>>();
    expect(result.a.toArray()).toEqual([[2, 4]]);
    expect(result.list[0].item()).toBe(2);
    expect(result.list[1][1].toArray()).toEqual([[2, 4]]);
    expect(result).toMatchObject({ op: undefined, nothing: null });
    expect(result.deep.er.x.item()).toBe(2);
  });

  test.each([null, undefined])(
    'rejects %s, which is usually a misspelled property',
    async (nothing: null | undefined) => {
      await expect(session.run(nothing)).rejects.toThrow(`A run needs something to fetch, it got ${nothing}`);
      expect(await session.run([])).toEqual([]);
    },
  );

  test('of one output twice are one tensor', async () => {
    const [a, b] = await session.run([product, product], fed);
    expect(a).toBe(b);
  });

  test('of a variable give its value', async () => {
    const v = inGraph(() => tf.variable('fetched', { initializer: [1, 2] }));
    await session.run(v.initializer);
    expect((await session.run(v)).toArray()).toEqual([1, 2]);
  });

  test('of nothing run nothing', async () => {
    expect(await session.run([])).toEqual([]);
  });

  test('that are invalid are reported with their position', async () => {
    await expect(session.run({ a: [x, 7 as never] })).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringContaining('.a[1]'),
    });
    await expect(session.run('no_such:0')).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
  });

  test('of another graph are an error', async () => {
    const foreign = new Graph().asDefault(() => tf.constant(1));
    for (const fetch of [foreign, foreign.op]) {
      await expect(session.run(fetch)).rejects.toThrow("other than the session's");
    }
    await expect(session.run(x, { targets: [foreign.op] })).rejects.toThrow("other than the session's");
  });
});

describe('feeds', () => {
  const run = async (feeds: Parameters<Session['run']>[1]) => (await session.run(product, feeds)).toArray();

  test('may be a map, pairs, or named', async () => {
    const expected = [[3, 6]];
    const rows = [[1, 2]];
    expect(
      await run({
        feeds: new Map<Output, never>([
          [x, 3 as never],
          [y, rows as never],
        ]),
      }),
    ).toEqual(expected);
    expect(
      await run({
        feeds: [
          [x, 3],
          [y, rows],
        ],
      }),
    ).toEqual(expected);
    expect(await run({ feeds: { x: 3, 'y:0': rows } })).toEqual(expected);
  });

  test('may be tensors, nested arrays, or flat typed arrays for a known shape', async () => {
    for (const rows of [
      Tensor.of([[1, 2]]),
      [[1, 2]],
      Float32Array.from([1, 2]),
      [Float32Array.from([1, 2])],
    ]) {
      expect(
        await run({
          feeds: [
            [x, 3],
            [y, rows],
          ],
        }),
      ).toEqual([[3, 6]]);
    }
  });

  test('may be for any output, and are returned if they are fetched', async () => {
    const sum = inGraph(() => product.add(1));
    const result = await session.run([product, sum], { feeds: [[product, [[7, 7]]]] });
    expect(result.map((tensor) => tensor.toArray())).toEqual([[[7, 7]], [[8, 8]]]);
  });

  test('are captured when the run is called', async () => {
    const rows = Float32Array.from([1, 2]);
    const runs = Array.from({ length: 40 }, (_, i) => {
      rows.fill(i);
      return run({
        feeds: [
          [x, 1],
          [y, rows],
        ],
      });
    });
    expect(await Promise.all(runs)).toEqual(Array.from({ length: 40 }, (_, i) => [[i, i]]));
  });

  test.each([
    [
      'a tensor of another type',
      { x: Tensor.of(1, { dtype: 'int32' }) },
      "The feed for 'x' must be float32; got int32",
    ],
    [
      'a literal of another type',
      { x: 'one' },
      /The feed for 'x' cannot be converted to a float32 \[\] tensor: "one"/,
    ],
    ['another rank', { y: [1, 2] }, "The feed for 'y' must have shape [?, 2]; got [2]"],
    ['another size', { y: [[1, 2, 3]] }, "The feed for 'y' must have shape [?, 2]; got [1, 3]"],
    [
      'a flat array that does not fill rows',
      { y: new Float32Array(3) },
      "The feed for 'y' must have shape [?, 2]",
    ],
    ['an unknown name', { z: 1 }, "Cannot feed 'z': the graph has no tensor of that name"],
  ])('of %s are rejected before the native call', async (_, feeds, message) => {
    await expect(session.run(product, { feeds: feeds as never })).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message:
        typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
    });
  });

  test('of another graph, or of no graph, are an error', async () => {
    const foreign = new Graph().asDefault(() => tf.placeholder());
    await expect(session.run(x, { feeds: [[foreign, 1]] })).rejects.toThrow("other than the session's");
    await expect(session.run(x, { feeds: [[7 as never, 1]] })).rejects.toThrow(
      'must be an output of the graph',
    );
  });

  test('that are missing fail in TensorFlow, naming the placeholder', async () => {
    await expect(session.run(product, { feeds: { x: 1 } })).rejects.toMatchObject({
      code: 'SHOAL_TF_INVALID_ARGUMENT',
      op: 'y',
    });
  });
});

describe('targets', () => {
  test('run in addition to the fetches', async () => {
    const v = inGraph(() => tf.variable('targeted', { initializer: 0 }));
    await session.run(v.initializer);
    const add = inGraph(() => v.assignAdd(5));
    await session.run([], { targets: [add, add] });
    expect((await session.run(v)).item()).toBe(5);
  });
});

describe('concurrent runs', () => {
  test('keep their feeds and fetches separate', async () => {
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, i) => session.run(product, { feeds: { x: i, y: [[1, 2]] } })),
    );
    expect(results.map((tensor) => tensor.toArray())).toEqual(
      Array.from({ length: 50 }, (_, i) => [[i, 2 * i]]),
    );
  });

  test('a blocked run does not block the event loop', async () => {
    const { waiting, end } = endless();
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
    }, 1);
    const run = session.run(waiting);
    while (ticks < 20) await pause(1);
    await end();
    expect((await run).item()).toBe(1);
    clearInterval(timer);
  });
});

describe('timeoutMs', () => {
  test('ends a blocked run and frees it', async () => {
    const before = liveHandles();
    const { waiting } = endless();
    await expect(session.run(waiting, { timeoutMs: 10 })).rejects.toMatchObject({
      code: 'SHOAL_TF_DEADLINE_EXCEEDED',
    });
    expect(() => session.runSync(waiting, { timeoutMs: 10 })).toThrow('DEADLINE_EXCEEDED');
    // On a busy machine the run is given up before TensorFlow has ended it.
    await expect.poll(liveHandles, { timeout: 20_000 }).toEqual(before);
  });

  test.each([0, -1, Number.NaN])('of %d is an error', async (timeoutMs) => {
    await expect(session.run(doubled, { timeoutMs, feeds: { x: 1 } })).rejects.toThrow(
      'timeoutMs must be above 0',
    );
  });

  test.each([1e10, Number.POSITIVE_INFINITY])('of %d is longer than any run', async (timeoutMs) => {
    expect((await session.run(doubled, { timeoutMs, feeds: { x: 1 } })).item()).toBe(2);
  });
});

describe('an AbortSignal', () => {
  test('that has already fired prevents the run', async () => {
    const run = session.run(doubled, { feeds: { x: 1 }, signal: AbortSignal.abort('no') });
    await expect(run).rejects.toMatchObject({ code: 'SHOAL_ABORTED', cause: 'no' });
  });

  test('abandons a run immediately, and its tensors are freed when it returns', async () => {
    const before = liveHandles();
    const { waiting, end } = endless();
    const controller = new AbortController();
    const run = session.run(waiting, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 5);
    await expect(run).rejects.toMatchObject({
      code: 'SHOAL_ABORTED',
      message: expect.stringContaining(`A run of ${waiting.name}`),
      cause: expect.objectContaining({ message: 'enough' }),
    });
    await end();
    while (liveHandles().status > before.status) await pause(1);
    expect(liveHandles()).toEqual(before);
  });
});

describe('metadata', () => {
  test('of a traced run names the ops and devices', async () => {
    let metadata: RunMetadata | undefined;
    await session.run(product, {
      feeds: { x: 1, y: [[1, 2]] },
      onMetadata: (given) => {
        metadata = given;
      },
    });
    const stats = metadata?.stepStats?.devStats ?? [];
    expect(stats.map(({ device }) => device).join()).toContain('CPU:0');
    expect(stats.flatMap(({ nodeStats }) => nodeStats.map(({ nodeName }) => nodeName))).toContain('product');
  });

  test('callback errors become the run’s error', async () => {
    const fail = () => {
      throw new Error('not mine');
    };
    await expect(session.run(doubled, { feeds: { x: 1 }, onMetadata: fail })).rejects.toThrow('not mine');
  });
});

describe('a callable', () => {
  test('takes values in order, asynchronously or synchronously', async () => {
    const run = session.callable({ product }, [x, y]);
    expect((await run(2, [[1, 2]])).product.toArray()).toEqual([[2, 4]]);
    expect(run.sync(3, Float32Array.from([1, 2])).product.toArray()).toEqual([[3, 6]]);
  });

  test('checks number, types and shapes of its values', async () => {
    const run = session.callable(product, [x, y]);
    await expect(run(1)).rejects.toThrow('takes 2 values; got 1');
    await expect(run(1, [1])).rejects.toThrow("The feed for 'y'");
    expect(() => run.sync('a', [[1, 2]])).toThrow("The feed for 'x'");
  });
});

describe('runSync', () => {
  test('returns the same as run', () => {
    expect(session.runSync({ product }, { feeds: { x: 2, y: [[1, 2]] } }).product.toArray()).toEqual([
      [2, 4],
    ]);
    expect(() => session.runSync(product, { feeds: { x: 1 } })).toThrow(
      "feed a value for placeholder tensor 'y'",
    );
  });
});

describe('close', () => {
  test('closes the session: further runs fail', async () => {
    const own = Session.open({ graph });
    expect(own.closed).toBe(false);
    await own.close();
    expect(own.closed).toBe(true);
    for (const run of [
      () => own.run(doubled, { feeds: { x: 1 } }),
      async () => own.runSync(doubled, { feeds: { x: 1 } }),
    ]) {
      await expect(run()).rejects.toMatchObject({
        code: 'SHOAL_DISPOSED',
        message: 'This session was closed',
      });
    }
    await own.close();
    own.dispose();
  });

  test('cancels running calls, even if they hold every in-flight slot', async () => {
    const own = Session.open({ graph });
    const before = liveHandles();
    const places = 2 * Number(process.env.UV_THREADPOOL_SIZE ?? 4);
    const { waiting } = endless();
    const outcomes = Promise.allSettled(Array.from({ length: places }, () => own.run(waiting)));
    await pause(50);
    await own.close();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { code: /^SHOAL_(TF_CANCELLED|DISPOSED)$/ },
      });
    }
    expect(liveHandles()).toEqual({ ...before, session: before.session - 1, total: before.total - 1 });
  });

  test('closes in the background while a run is active', async () => {
    const own = Session.open({ graph });
    const sessions = liveHandles().session;
    const run = own.run(endless().waiting);
    const ended = expect(run).rejects.toMatchObject({ code: 'SHOAL_TF_CANCELLED' });
    await pause(20);
    own.dispose();
    await ended;
    await own.close();
    expect(liveHandles().session).toBe(sessions - 1);
  });

  test('happens at the end of an `await using` scope', async () => {
    const sessions = liveHandles().session;
    {
      await using one = Session.open({ graph });
      using two = Session.open({ graph });
      expect(liveHandles().session).toBe(sessions + 2);
      void [one, two];
    }
    expect(liveHandles().session).toBe(sessions);
  });

  test('of a graph does not stop its sessions', async () => {
    const own = new Graph();
    const output = own.asDefault(() => tf.add(1, 2));
    await using running = Session.open({ graph: own });
    own.dispose();
    expect((await running.run(output)).item()).toBe(3);
  });
});

describe('a session', () => {
  test('lists its devices', () => {
    expect(session.devices()).toContainEqual({
      name: '/job:localhost/replica:0/task:0/device:CPU:0',
      type: 'CPU',
    });
  });

  test('takes a ConfigProto', async () => {
    await using own = await Session.create({ graph, config: { deviceCount: { CPU: 3 } }, timeoutMs: 60_000 });
    expect(own.devices().filter(({ type }) => type === 'CPU')).toHaveLength(3);
  });

  test('with an invalid target is an error', async () => {
    await expect(Session.create({ graph, target: 'nowhere://x' })).rejects.toMatchObject({
      code: 'SHOAL_TF_NOT_FOUND',
    });
    expect(() => Session.open({ graph, target: 'nowhere://x' })).toThrowError(
      expect.objectContaining({ code: 'SHOAL_TF_NOT_FOUND' }),
    );
  });

  test('sees ops that are added to its graph later', async () => {
    expect((await session.run(inGraph(() => tf.constant(42)))).item()).toBe(42);
  });
});
