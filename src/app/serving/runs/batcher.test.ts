/** Batches of real runs: the same bits as alone, for models whose ops work row by row; and the queue in trouble. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Output, tf } from '../../../index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { type PreparedRun, Session } from '../../../tensorflow/session/session.js';
import { seededRandom } from '../../../tensorflow/tensor/seeded-random.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { BatchingConfig } from '../config/config-files.js';
import { Batcher, type BatchOwner, type BatchRun } from './batcher.js';

const CONFIG: BatchingConfig = {
  maxBatchSize: 16,
  timeoutMs: 20,
  maxEnqueuedBatches: 4,
  threads: 1,
  allowedSizes: [],
  padsVariableLengths: false,
};

const graph = new Graph();
let session: Session;
beforeAll(() => {
  session = Session.open({ graph });
});
afterAll(() => session.close());

/** A run of a model that counts its batches. */
function model(
  build: (x: Output<'float32'>) => Output,
  dtype: 'float32' | 'string' = 'float32',
  width: number | null = 4,
) {
  const prepared = graph.asDefault((): PreparedRun => {
    const x = tf.placeholder({ dtype, shape: [null, width] }) as Output<'float32'>;
    return session.prepare([build(x)], [x], []);
  });
  const sizes: number[] = [];
  const run: BatchRun = (values, call) => {
    sizes.push(values[0]!.shape[0]!);
    return prepared.run(values, call.signal ? { signal: call.signal } : {});
  };
  return { run, sizes, owner: {} as BatchOwner };
}

const random = seededRandom(7);
const rows = (count: number, width = 4): Tensor =>
  Tensor.of(
    Float32Array.from({ length: count * width }, () => random() - 0.5),
    { dtype: 'float32', shape: [count, width] },
  );

const bits = (tensors: readonly Tensor[]): string =>
  tensors
    .map(
      (tensor) =>
        `${tensor.shape.join('x')} ${Buffer.from(new Uint8Array((tensor.data as Float32Array).slice().buffer)).toString('hex')}`,
    )
    .join();

describe('answers are the same bits as alone', () => {
  const w = Array.from({ length: 4 }, (_, i) => Array.from({ length: 3 }, (_, j) => Math.sin(i * 3 + j)));
  const models: [string, (x: Output<'float32'>) => Output][] = [
    ['elementwise', (x) => tf.tanh(tf.mul(x, 1.7))],
    ['softmax of rows', (x) => tf.softmax(x)],
    ['a lookup', (x) => tf.gather(tf.constant(w), tf.cast(tf.abs(tf.mul(x, 7)), 'int32'))],
    ['a reduction of rows', (x) => tf.sum(x, { axis: 1 })],
  ];
  test.each(models)('%s', async (_name, build) => {
    const { run, sizes, owner } = model(build);
    const requests = [1, 3, 2, 5].map((count) => rows(count));
    const alone = await Promise.all(requests.map((x) => run([x], {})));
    sizes.length = 0;
    const batcher = new Batcher({ ...CONFIG, allowedSizes: [8, 16] });
    const together = await Promise.all(requests.map((x) => batcher.submit(owner, [x], run, {})));
    expect(sizes).toEqual([16]);
    expect(together.map(bits)).toEqual(alone.map(bits));
  });

  test('not of a matrix product, whose order of additions depends on the size, but to 1e-6', async () => {
    const { run, owner } = model((x) => tf.matMul(x, tf.constant(w)));
    const requests = [1, 3, 2].map((count) => rows(count));
    const batcher = new Batcher(CONFIG);
    const together = await Promise.all(requests.map((x) => batcher.submit(owner, [x], run, {})));
    for (const [i, x] of requests.entries()) {
      const [alone] = await run([x], {});
      const values = together[i]![0]!.data as Float32Array;
      for (const [at, value] of (alone!.data as Float32Array).entries())
        expect(values[at]).toBeCloseTo(value, 6);
    }
  });

  test('of strings', async () => {
    const { run, owner, sizes } = model((x) => tf.identity(x), 'string', 1);
    const batcher = new Batcher({ ...CONFIG, allowedSizes: [16] });
    const words = ['a', 'longer than what TensorFlow keeps inline'];
    const results = await Promise.all(
      words.map((word) => batcher.submit(owner, [Tensor.of([[word]], { dtype: 'string' })], run, {})),
    );
    expect(results.map(([tensor]) => tensor!.toArray())).toEqual(words.map((word) => [[word]]));
    expect(sizes).toEqual([16]);
  });
});

test('rows that padding would make far larger are run alone', async () => {
  const shapes: number[][] = [];
  const run: BatchRun = async (values) => {
    shapes.push([...values[0]!.shape]);
    return values;
  };
  const batcher = new Batcher({ ...CONFIG, padsVariableLengths: true });
  const owner: BatchOwner = {};
  const submit = (...shape: number[]) => batcher.submit(owner, [Tensor.zeros(shape, 'float32')], run, {});
  await Promise.all([submit(1, 0, 9000), submit(1, 9000, 1)]);
  await Promise.all([submit(1, 0, 2 ** 52), submit(1, 4096, 1)]);
  expect(shapes).toEqual([
    [1, 0, 9000],
    [1, 9000, 1],
    [1, 0, 2 ** 52],
    [1, 4096, 1],
  ]);
});

test('rows of different lengths are batched apart, or padded with zeros', async () => {
  const count = model((x) => tf.sum(x, { axis: 1 }), 'float32', null);
  const requests = [Tensor.of([[1, 2]]), Tensor.of([[3, 4, 5]])];
  const submit = (config: BatchingConfig) => {
    const batcher = new Batcher(config);
    return Promise.all(requests.map((x) => batcher.submit(count.owner, [x], count.run, {})));
  };
  expect((await submit(CONFIG)).map(([sum]) => sum!.toArray())).toEqual([[3], [12]]);
  expect(count.sizes).toEqual([1, 1]);
  count.sizes.length = 0;
  expect((await submit({ ...CONFIG, padsVariableLengths: true })).map(([sum]) => sum!.toArray())).toEqual([
    [3],
    [12],
  ]);
  expect(count.sizes).toEqual([2]);
});

test('results that have no row for each row are not divided: the requests run alone, now and later', async () => {
  const total = model((x) => tf.sum(x));
  const batcher = new Batcher(CONFIG);
  const requests = [rows(2), rows(3)];
  const results = await Promise.all(requests.map((x) => batcher.submit(total.owner, [x], total.run, {})));
  expect(total.sizes).toEqual([5, 2, 3]);
  expect(results.every(([sum]) => sum!.rank === 0)).toBe(true);
  expect(batcher.takes(total.owner, requests.slice(0, 1))).toBe(false);
});

test('a bad request fails alone', async () => {
  const found = model((x) => tf.gather(tf.constant([10, 20, 30]), tf.cast(x, 'int32')), 'float32', 1);
  const batcher = new Batcher(CONFIG);
  const results = await Promise.allSettled(
    [0, 9, 2].map((at) => batcher.submit(found.owner, [Tensor.of([[at]])], found.run, {})),
  );
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

const turn = () => new Promise((next) => setImmediate(next));

describe('the queue', () => {
  /** Runs that end when they are let go. */
  function held() {
    const gates: (() => void)[] = [];
    const run: BatchRun = async (values) => {
      await new Promise<void>((open) => gates.push(open));
      return values;
    };
    return { run, owner: {} as BatchOwner, next: () => gates.shift()?.() };
  }

  test('refuses at once what exceeds its bound', async () => {
    const { run, owner, next } = held();
    const batcher = new Batcher({ ...CONFIG, maxBatchSize: 1, maxEnqueuedBatches: 2, timeoutMs: 0 });
    const accepted = [1, 2, 3].map(() => batcher.submit(owner, [rows(1)], run, {}));
    await expect(batcher.submit(owner, [rows(1)], run, {})).rejects.toMatchObject({
      status: 'RESOURCE_EXHAUSTED',
    });
    expect([batcher.running, batcher.queued]).toEqual([1, 2]);
    for (const one of accepted) {
      await turn();
      next();
      await one;
    }
    await turn();
    expect([batcher.running, batcher.queued]).toEqual([0, 0]);
  });

  test('a cancelled request and a late one leave it', async () => {
    const { run, owner, next } = held();
    const batcher = new Batcher({ ...CONFIG, timeoutMs: 0 });
    const first = batcher.submit(owner, [rows(1)], run, {});
    const gone = new AbortController();
    const cancelled = batcher.submit(owner, [rows(1)], run, { signal: gone.signal });
    const late = batcher.submit(owner, [rows(1)], run, { deadline: performance.now() + 5 });
    gone.abort();
    await expect(cancelled).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    await expect(late).rejects.toMatchObject({ status: 'DEADLINE_EXCEEDED' });
    expect(batcher.queued).toBe(0);
    next();
    await first;
    await turn();
    expect(batcher.running).toBe(0);
  });

  test('a full batch begins before its timeout, a small one after it', async () => {
    const { run, owner, sizes } = model((x) => tf.neg(x));
    const batcher = new Batcher({ ...CONFIG, maxBatchSize: 4, timeoutMs: 60_000 });
    await Promise.all([1, 3].map((count) => batcher.submit(owner, [rows(count)], run, {})));
    expect(sizes).toEqual([4]);
    const small = new Batcher({ ...CONFIG, timeoutMs: 10 });
    await small.submit(owner, [rows(1)], run, {});
    expect(sizes).toEqual([4, 1]);
  });
});
