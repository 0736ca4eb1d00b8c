/** Every failing call frees its native objects: the handle counts stay constant. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { tf } from '../src/index.js';
import { Graph } from '../src/tensorflow/graph/graph.js';
import type { Output } from '../src/tensorflow/graph/operation.js';
import { liveHandles } from '../src/tensorflow/native/handle.js';
import * as raw from '../src/tensorflow/ops/generated/index.js';
import { Session } from '../src/tensorflow/session/session.js';
import type { Tensor } from '../src/tensorflow/tensor/tensor.js';

const TIMES = 1000;

let graph: Graph;
let session: Session;
let x: Output<'float32'>;
let badReshape: Output;
let endless: Output;
let good: Output;
let text: Output<'string'>;

beforeAll(() => {
  graph = new Graph();
  session = Session.open({ graph });
  graph.asDefault(() => {
    x = tf.placeholder({ shape: [null], name: 'x' });
    text = tf.placeholder({ dtype: 'string', shape: null, name: 'text' });
    badReshape = tf.reshape(x, [7]);
    good = x.add(1);
    const queue = raw.fifoQueueV2({ componentTypes: ['float32'] });
    [endless] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] }) as [Output];
  });
});
afterAll(() => session.close());

const fed = () => ({ feeds: { x: [1, 2], text: ['a string that is longer than twenty-two bytes'] } });

/** The counts of explicitly freed handles; graphs without an owner are left to the garbage collector. */
function counts() {
  const { graph: _graph, total: _total, ...others } = liveHandles();
  return others;
}

/** Makes calls that must fail; the first one may initialize caches and is not counted. */
async function failing(times: number, attempt: () => unknown): Promise<void> {
  const once = async () => {
    try {
      await attempt();
    } catch {
      return;
    }
    expect.fail('the call succeeded');
  };
  await once();
  const before = counts();
  for (let i = 0; i < times; i++) await once();
  // The handles of an abandoned run are freed when TensorFlow returns from it.
  for (let i = 0; i < 200 && counts().status !== before.status; i++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(counts()).toEqual(before);
}

describe(`no handle leaks after ${TIMES} failures of`, () => {
  const disposed = (): Tensor => {
    const big = session.runSync(graph.output('big:0'));
    big.dispose();
    return big;
  };
  beforeEach(() => {
    if (!graph.hasOperation('big')) graph.asDefault(() => tf.fill([100_000], 1, { name: 'big' }));
  });

  test('runs that fail in TensorFlow', () => failing(TIMES, () => session.run(badReshape, fed())));
  test('synchronous runs that fail in TensorFlow', () =>
    failing(TIMES, () => session.runSync(badReshape, fed())));
  test('runs with metadata that fail in TensorFlow', () =>
    failing(TIMES, () => session.run(badReshape, { ...fed(), onMetadata: () => {} })));
  test('runs whose metadata callback throws', () =>
    failing(TIMES, () =>
      session.run(good, {
        ...fed(),
        onMetadata: () => {
          throw new Error('no');
        },
      }),
    ));
  test('runs without a feed', () => failing(TIMES / 10, () => session.run(badReshape)));
  test('feeds of a wrong shape', () => failing(TIMES, () => session.run(badReshape, { feeds: { x: 1 } })));
  test('disposed feeds after valid ones', () => {
    const gone = disposed();
    return failing(TIMES, () =>
      session.run(badReshape, {
        feeds: [
          [text, 'x'.repeat(50)],
          [x, gone],
        ],
      }),
    );
  });
  test('an invalid timeout', () =>
    failing(TIMES, () => session.run(badReshape, { ...fed(), timeoutMs: -1 })));
  test('a timeout that expires', () => failing(50, () => session.run(endless, { timeoutMs: 1 })));
  test('an aborted signal', () =>
    failing(TIMES, () => session.run(badReshape, { ...fed(), signal: AbortSignal.abort() })));
  test('fetches of another graph', () => {
    const foreign = new Graph().asDefault(() => tf.constant(1));
    return failing(TIMES, () => session.run(foreign, fed()));
  });
  test('ops with incompatible shapes', () =>
    failing(TIMES, () => graph.op('MatMul', [x, x], {}, { name: 'bad' })));
  test('ops with an attribute of a wrong type', () =>
    failing(TIMES, () => graph.op('Placeholder', [], { dtype: 7 as never })));
  test('constants of a disposed tensor', () => {
    const gone = disposed();
    return failing(TIMES, () => graph.op('Const', [], { dtype: 'float32', value: gone }));
  });
  test('ops with a list of strings', () =>
    failing(TIMES, () => graph.op('MatMul', [x, x], { _class: ['loc:@nowhere', 'x'.repeat(100)] })));
  test('ops that do not exist', () => failing(TIMES, () => graph.op('NoSuchOp')));
  test('attributes that do not exist', () =>
    failing(TIMES, () => {
      if (x.op.attr('none') === undefined) throw new Error('none');
    }));
  test('contradictory shapes', () => failing(TIMES, () => x.setShape([1, 2, 3])));
  test('imports of bytes that are not a GraphDef', () =>
    failing(TIMES, () => graph.importGraphDef(Uint8Array.from([255, 1, 2]))));
  test('imports that request a missing output', () =>
    failing(TIMES, () => graph.importGraphDef(new Uint8Array(), { returnOutputs: ['none:0'] })));
  test('sessions with an invalid target', () =>
    failing(TIMES, () => Session.open({ graph, target: 'nowhere://x' })));
  test('asynchronous sessions with an invalid target', () =>
    failing(TIMES, () => Session.create({ graph, target: 'nowhere://x' })));
});

describe('no handle leaks after', () => {
  test('20,000 runs with feeds and fetches', async () => {
    const y = graph.asDefault(() => x.mul(2).add(1));
    const upper = graph.asDefault(() => raw.stringUpper(text));
    const run = session.callable([y, upper], [x, text]);
    const words = ['short', 'a string that is longer than twenty-two bytes'];
    await run([1], words);
    const before = counts();
    for (let i = 0; i < 200; i++) {
      const results = await Promise.all(Array.from({ length: 50 }, (_, j) => run([i, j], words)));
      expect(results[49]?.[0].toArray()).toEqual([2 * i + 1, 99]);
      for (let j = 0; j < 50; j++) run.sync([i, j], words);
    }
    expect(counts()).toEqual(before);
  });

  test('disposed graphs with closed sessions', async () => {
    const before = liveHandles();
    for (let i = 0; i < 20; i++) {
      using own = new Graph();
      expect(liveHandles().graph).toBeLessThanOrEqual(before.graph + 1);
      const y = own.asDefault(() => tf.add(1, i));
      await using opened = Session.open({ graph: own });
      expect((await opened.run(y)).item()).toBe(1 + i);
    }
    expect(liveHandles().graph).toBeLessThanOrEqual(before.graph);
    expect(liveHandles().session).toBe(before.session);
  });
});
