/** The direct engine between tasks that are connected by real sockets. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { ClusterServer } from '../runtime/cluster-server.js';
import type { ClusterSession } from '../runtime/cluster-session.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { type TaskId, taskId } from '../spec/task-id.js';
import { BulkStreams } from './bulk-streams.js';

const PS = [0, 1].map((index) => taskId('ps', index));
const WORKER = taskId('worker', 0);
const SETTINGS = { heartbeatMs: 50, deadAfterMs: 2000 };

let servers: Map<TaskId, ClusterServer>;
let graph: Graph;
let session: ClusterSession;

/** The tasks choose their ports, so the ps start first. */
beforeEach(async () => {
  servers = new Map();
  graph = new Graph();
  const security = { kind: 'none' } as const;
  const addresses: string[] = [];
  const start = async (self: TaskId) => {
    // Ports that nothing listens on stand for the tasks that are not started yet.
    const ps = PS.map((_, index) => addresses[index] ?? `127.0.0.1:${index + 1}`);
    const spec = new ClusterSpec({ ps, worker: ['127.0.0.1:3'] });
    const listen = '127.0.0.1:0';
    const server = await ClusterServer.create({
      spec,
      self,
      security,
      engine: 'direct',
      listen,
      settings: SETTINGS,
      // A process that is replaced ends by default.
      onExit: () => {},
    });
    servers.set(self, server);
    addresses.push(server.task.agentAddress);
    return server;
  };
  for (const self of PS) await start(self);
  const worker = await start(WORKER);
  session = worker.session(graph, { waitMs: 20_000 });
});

afterEach(async () => {
  await session.close();
  for (const server of [...servers.values()].reverse()) await server.close();
});

const onPs = <T>(index: number, body: () => T): T =>
  graph.asDefault(() => graph.device(`/job:ps/task:${index}`, body));
const constant = (values: number[]): Output =>
  graph.op('Const', [], { dtype: 'float32', value: Tensor.of(values, { dtype: 'float32' }) }).output();
const constantInt = (value: number): Output<'int32'> =>
  graph
    .op('Const', [], { dtype: 'int32', value: Tensor.of(value, { dtype: 'int32' }) })
    .output() as Output<'int32'>;
const variable = (index: number, name: string, size: number) =>
  onPs(index, () => {
    const handle = raw.varHandleOp({ dtype: 'float32', shape: [size], sharedName: name });
    const value = raw.placeholder({ dtype: 'float32', shape: [size] });
    return {
      read: raw.readVariableOp(handle, { dtype: 'float32' }),
      value,
      assign: raw.assignVariableOp(handle, value),
      add: (delta: Output) => onPs(index, () => raw.assignAddVariableOp(handle, delta)),
    };
  });

it('reads, computes and updates over two ps, and starts no TensorFlow server', async () => {
  const [w, b] = [variable(0, 'w', 3), variable(1, 'b', 3)];
  await session.run([w.assign, b.assign], {
    feeds: [
      [w.value, [1, 2, 3]],
      [b.value, [10, 20, 30]],
    ],
  });
  const sum = graph.asDefault(() => raw.addV2(w.read, b.read));
  const update = w.add(sum);
  expect((await session.run([sum, update]))[0].toArray()).toEqual([11, 22, 33]);
  expect((await session.run(w.read)).toArray()).toEqual([12, 24, 36]);
  for (const server of servers.values())
    expect(server.task.member(server.task.task)?.serverAddress).toBeNull();
});

it('sends large tensors both ways', async () => {
  const size = 3_000_000;
  const v = variable(0, 'large', size);
  const data = Float32Array.from({ length: size }, (_, i) => i % 1000);
  await session.run(v.assign, { feeds: [[v.value, data]] });
  using back = (await session.run(v.read)) as Tensor<'float32'>;
  expect(
    Buffer.from(back.data.buffer, back.data.byteOffset, back.byteLength).equals(Buffer.from(data.buffer)),
  ).toBe(true);
});

it('sends large tensors to two ps at once, through channels of their own after the first ones', async () => {
  const counted = vi.spyOn(BulkStreams.prototype, 'count');
  const size = 700_001;
  const [v, w] = [variable(0, 'v', size), variable(1, 'w', size)];
  const sum = graph.asDefault(() => raw.addV2(v.read, w.read));
  for (let round = 0; round < 6; round++) {
    using data = Tensor.allocate([size], 'float32');
    const values = Float32Array.from({ length: size }, (_, i) => (i % 1000) + round);
    data.setBytes(new Uint8Array(values.buffer), 0);
    const feeds: Feeds = [
      [v.value, data],
      [w.value, data],
    ];
    await session.run([v.assign, w.assign], { feeds });
    using back = (await session.run(sum)) as Tensor<'float32'>;
    expect(back.data.every((value, i) => value === 2 * (values[i] as number))).toBe(true);
    if (round === 1) await expect.poll(() => counted.mock.calls.length, { timeout: 20_000 }).toBe(4);
  }
  // All but those of the first rounds, which may have opened the channels.
  for (const [{ bytesRead }] of counted.mock.calls) expect(bytesRead).toBeGreaterThanOrEqual(4 * 4 * size);
  counted.mockRestore();
});

it('closes the bulk channel of a process that is replaced', async () => {
  const counted = vi.spyOn(BulkStreams.prototype, 'count');
  const v = variable(0, 'v', 500_000);
  using data = Tensor.allocate([500_000], 'float32');
  data.setBytes(new Uint8Array(data.byteLength), 0);
  await session.run(v.assign, { feeds: [[v.value, data]] });
  await expect.poll(() => counted.mock.calls.length, { timeout: 20_000 }).toBe(2);
  const channels = counted.mock.calls.map(([channel]) => channel);
  counted.mockRestore();
  const ps = PS.map((task) => servers.get(task)?.task.agentAddress as string);
  const successor = await ClusterServer.create({
    spec: new ClusterSpec({ ps, worker: ['127.0.0.1:3'] }),
    self: WORKER,
    security: { kind: 'none' },
    engine: 'direct',
    listen: '127.0.0.1:0',
    settings: SETTINGS,
  });
  await Promise.all(channels.map(({ ended }) => ended));
  await successor.close();
});

it('reports an error of another task with its code, op and task', async () => {
  const missing = onPs(1, () =>
    raw.readVariableOp(raw.varHandleOp({ dtype: 'float32', shape: [1], sharedName: 'none' }), {
      dtype: 'float32',
      name: 'read_none',
    }),
  );
  await expect(session.run(missing)).rejects.toMatchObject({
    code: 'SHOAL_TF_FAILED_PRECONDITION',
    task: '/job:ps/task:1',
    op: 'read_none',
    hint: expect.stringContaining('has no value yet'),
  });
});

it('cancels a stage that waits on another task, which then takes no element', async () => {
  const { dequeue, enqueue, size } = onPs(0, () => {
    const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[1]], sharedName: 'q' });
    return {
      dequeue: raw.queueDequeueV2(queue, { componentTypes: ['float32'] })[0] as Output,
      enqueue: raw.queueEnqueueV2(queue, [constant([7])]),
      size: raw.queueSizeV2(queue),
    };
  });
  const stop = new AbortController();
  const waiting = session.run(dequeue, { signal: stop.signal });
  waiting.catch(() => {});
  await session.run(size);
  stop.abort('not needed any more');
  await expect(waiting).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  await session.run(enqueue);
  expect((await session.run(size)).number()).toBe(1);
  expect((await session.run(dequeue)).toArray()).toEqual([7]);
  await expect(session.run(dequeue, { timeoutMs: 300 })).rejects.toMatchObject({
    code: 'SHOAL_TF_DEADLINE_EXCEEDED',
  });
});

it('lets hundreds of stages wait, and gives each its own element', async () => {
  const { dequeue, enqueue, value } = onPs(0, () => {
    const queue = raw.fifoQueueV2({
      componentTypes: ['float32'],
      shapes: [[]],
      capacity: 2,
      sharedName: 'few',
    });
    const value = raw.placeholder({ dtype: 'float32', shape: [] });
    return {
      dequeue: raw.queueDequeueV2(queue, { componentTypes: ['float32'] })[0] as Output,
      enqueue: raw.queueEnqueueV2(queue, [value]),
      value,
    };
  });
  const w = variable(0, 'beside', 1);
  await session.run(w.assign, { feeds: [[w.value, [5]]] });
  // More than the thread pool has threads.
  const numbers = Array.from({ length: 200 }, (_, i) => i);
  const taken = numbers.map(() => session.run(dequeue, { timeoutMs: 60_000 }));
  expect((await session.run(w.read)).toArray()).toEqual([5]);
  // Above its capacity the queue makes the enqueues wait as well.
  const given = numbers.map((number) =>
    session.run(enqueue, { feeds: [[value, number]], timeoutMs: 60_000 }),
  );
  await Promise.all(given);
  const found = (await Promise.all(taken)).map((tensor) => tensor.number());
  expect(found.sort((a, b) => a - b)).toEqual(numbers);
  const blocked = numbers.map(() => session.run(enqueue, { feeds: [[value, 1]], timeoutMs: 500 }));
  const ends = await Promise.allSettled(blocked);
  expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
});

it('dequeues from a shuffling queue once it has enough elements, which others add meanwhile', async () => {
  const { dequeue, enqueue, size } = onPs(0, () => {
    const queue = raw.randomShuffleQueueV2({
      componentTypes: ['float32'],
      shapes: [[1]],
      minAfterDequeue: 1,
      sharedName: 'shuffled',
    });
    return {
      dequeue: raw.queueDequeueV2(queue, { componentTypes: ['float32'] })[0] as Output,
      enqueue: raw.queueEnqueueV2(queue, [constant([7])]),
      size: raw.queueSizeV2(queue),
    };
  });
  await session.run(enqueue);
  const taking = session.run(dequeue, { timeoutMs: 60_000 });
  await session.run(size);
  for (let i = 0; i < 3; i++) await session.run(enqueue, { timeoutMs: 60_000 });
  expect((await taking).toArray()).toEqual([7]);
  expect((await session.run(size)).number()).toBe(3);
});

it('takes gradients when enough workers have added theirs', async () => {
  const { add, take, step } = onPs(1, () => {
    const sum = raw.resourceConditionalAccumulator({ dtype: 'float32', shape: [2], sharedName: 'sum' });
    const step = raw.placeholder({ dtype: 'int64', shape: [] });
    return {
      step,
      add: raw.resourceAccumulatorApplyGradient(sum, step, constant([1, 3])),
      take: raw.resourceAccumulatorTakeGradient(sum, constantInt(3), { dtype: 'float32' }),
    };
  });
  const taking = session.run(take, { timeoutMs: 60_000 });
  let isTaken = false;
  void taking.then(() => {
    isTaken = true;
  });
  for (let i = 0; i < 2; i++) await session.run(add, { feeds: [[step, 0n]] });
  expect(isTaken).toBe(false);
  await session.run(add, { feeds: [[step, 0n]] });
  expect((await taking).toArray()).toEqual([1, 3]);
});

it('fails immediately with UNAVAILABLE and the name of a ps that is gone', async () => {
  const w = variable(1, 'w', 1);
  await session.run(w.assign, { feeds: [[w.value, [1]]] });
  const dequeue = onPs(1, () => {
    const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[1]], sharedName: 'q2' });
    return raw.queueDequeueV2(queue, { componentTypes: ['float32'] })[0] as Output;
  });
  const waiting = session.run(dequeue);
  waiting.catch(() => {});
  await session.run(w.read);
  await servers.get(PS[1] as TaskId)?.close();
  await expect(waiting).rejects.toMatchObject({
    code: 'SHOAL_TF_UNAVAILABLE',
    message: expect.stringContaining('/job:ps/task:1'),
  });
});

it('rejects an op on another worker', async () => {
  const elsewhere = graph.asDefault(() =>
    graph.device('/job:worker/task:1', () => raw.identity(constant([1]))),
  );
  const stateful = graph.asDefault(() =>
    graph.device('/job:worker/task:1', () => raw.placeholder({ dtype: 'float32', shape: [1] })),
  );
  await expect(session.run([elsewhere, stateful])).rejects.toMatchObject({
    code: 'SHOAL_INVALID_ARGUMENT',
    message: expect.stringContaining('/job:worker/task:1'),
  });
});

it('keeps the strings that a queue on another task got', async () => {
  const { enqueue, dequeue, value } = onPs(0, () => {
    const queue = raw.fifoQueueV2({ componentTypes: ['string'], shapes: [[]], sharedName: 'strings' });
    const value = graph.device('/job:worker/task:0', () =>
      raw.placeholder({ dtype: 'string', shape: [null] }),
    );
    return {
      value,
      enqueue: raw.queueEnqueueManyV2(queue, [value]),
      dequeue: raw.queueDequeueManyV2(queue, constantInt(8), { componentTypes: ['string'] })[0] as Output,
    };
  });
  const texts = Array.from({ length: 8 }, (_, i) => `a text that is too long to be stored inline: ${i}`);
  await session.run(enqueue, { feeds: [[value, texts]] });
  // Other strings may get the memory of the fed ones.
  for (let round = 0; round < 20; round++) {
    await session.run(enqueue, { feeds: [[value, texts.map((text) => text.toUpperCase())]] });
    if (round > 0) await session.run(dequeue);
    else expect((await session.run(dequeue)).toArray()).toEqual(texts);
  }
});

it('rejects a tensor that is fed twice', async () => {
  const w = variable(0, 'twice', 1);
  const feeds: [Output, number[]][] = [
    [w.value, [1]],
    [w.value, [2]],
  ];
  await expect(session.run(w.assign, { feeds })).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
});
