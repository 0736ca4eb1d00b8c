/** A task that runs the stages of others, with callers that do not follow the protocol. */
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isShoalError, type ShoalError } from '../../../base/errors/errors.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { nativeBytes } from '../../../tensorflow/native/library/pressure.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { StageHost } from '../host/stage-host.js';
import { partition } from '../partition/partition.js';
import type { Stage } from '../partition/plan.js';
import { PLACEMENT } from '../testing/hosts.js';
import { randomNumbers } from '../testing/random-graph.js';
import { SocketPairs } from '../testing/socket-pair.js';
import { Connection, type WireMessage } from '../wire/connection.js';
import { decodeFailure, encodeRegister, encodeRun, KIND } from './protocol.js';
import { StageService } from './stage-service.js';

const TASK = '/job:ps/task:0';
const NONE = new Uint8Array(0);
/** The bytes of a large reply. */
const LARGE = 16 << 20;

let pairs: SocketPairs;
let host: StageHost;
beforeAll(async () => {
  pairs = await SocketPairs.listen();
});
afterAll(() => pairs.close());
beforeEach(() => {
  host = new StageHost({ task: TASK });
});
afterEach(() => host.close());

/** A stage on the task with one input and one output, `copies` times as long. */
function stageOf(copies = 1): Stage {
  const graph = new Graph();
  const { x, y } = graph.asDefault(() =>
    graph.device(TASK, () => {
      const x = raw.placeholder({ dtype: 'float32', shape: [null] });
      return { x, y: raw.tile(raw.neg(x), Tensor.of([copies], { dtype: 'int32' })) };
    }),
  );
  const plan = partition(graph, { fetches: [y], targets: [], feeds: [x] }, PLACEMENT);
  expect(plan.stages).toHaveLength(1);
  return plan.stages[0] as Stage;
}

/** A caller without rules, and the service that it is connected to. */
class Caller {
  readonly connection: Connection;
  readonly replies: WireMessage[] = [];
  readonly socket: Socket;
  readonly closed: Promise<ShoalError>;
  #wake = () => {};

  private constructor(client: Socket, server: Socket) {
    this.socket = client;
    this.closed = new Promise((onClose) => {
      new StageService(server, { host, label: '/job:worker/task:1', onClose });
    });
    this.connection = new Connection(client, {
      label: TASK,
      onMessage: (message) => {
        this.replies.push(message);
        this.#wake();
      },
      onClose: () => this.#wake(),
      limits: { maxQueuedBytes: Number.POSITIVE_INFINITY },
    });
  }

  static async connect(): Promise<Caller> {
    const { client, server } = await pairs.pair();
    return new Caller(client, server);
  }

  send(kind: number, id: number, head: Uint8Array = NONE, tensors: readonly Tensor[] = []): void {
    this.connection.send({ kind, id, head, tensors });
  }

  register(id: number, stage: Stage, graph = stage.spec.graph): void {
    this.send(KIND.register, id, encodeRegister(stage), [Tensor.of(graph, { dtype: 'uint8' })]);
  }

  run(id: number, stage: number, values: number[] | Float32Array): void {
    this.send(KIND.run, id, encodeRun({ stage: stage, timeoutMs: undefined }), [
      Tensor.of(values, { dtype: 'float32' }),
    ]);
  }

  async reply(count = 1): Promise<WireMessage[]> {
    while (this.replies.length < count && !this.connection.closed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.replies.splice(0, count);
  }
}

it('registers a stage by its contents only: others get what has the hash', async () => {
  const [stage, other] = [stageOf(1), stageOf(2)];
  const attacker = await Caller.connect();
  attacker.register(0, stage, other.spec.graph);
  expect(await attacker.closed).toMatchObject({
    code: 'SHOAL_CORRUPT',
    message: expect.stringMatching(/does not have the hash/),
  });
  expect(host.stages).toBe(0);

  const caller = await Caller.connect();
  caller.register(0, stage);
  caller.run(7, 0, [1, 2]);
  const [reply] = await caller.reply();
  expect(reply).toMatchObject({ kind: KIND.result, id: 7 });
  expect(reply?.tensors[0]?.toArray()).toEqual([-1, -2]);
  caller.connection.close();
});

it('workers that come and go with the same program leave one copy of its stages', async () => {
  for (let worker = 0; worker < 20; worker++) {
    const caller = await Caller.connect();
    caller.register(0, stageOf());
    caller.run(1, 0, [worker]);
    expect((await caller.reply()).map(({ kind }) => kind)).toEqual([KIND.result]);
    caller.connection.close();
    await caller.closed;
  }
  expect(host.stages).toBe(1);
});

describe('messages out of order', () => {
  const cases: Readonly<Record<string, [RegExp, (caller: Caller, stage: Stage) => void]>> = {
    'a run before its registration': [/stage 0 is not registered/, (caller) => caller.run(1, 0, [1])],
    'a second registration of a number': [
      /stage 0 is already registered/,
      (caller, stage) => {
        caller.register(0, stage);
        caller.register(0, stage);
      },
    ],
    'a reply to a task that has no calls': [
      /unknown kind of message 4/,
      (caller) => caller.send(KIND.result, 1),
    ],
    'a kind that does not exist': [/unknown kind of message 99/, (caller) => caller.send(99, 1)],
    'a registration without a graph': [
      /without a graph/,
      (caller, stage) => caller.send(KIND.register, 0, encodeRegister(stage)),
    ],
    'a registration that is not JSON': [
      /invalid message/,
      (caller) => caller.send(KIND.register, 0, Buffer.from('{'), [Tensor.of([1])]),
    ],
    'a run with a short head': [/head of 3 bytes/, (caller) => caller.send(KIND.run, 0, Buffer.alloc(3))],
    'a run with a list that is not there': [
      /truncated/,
      (caller) => caller.send(KIND.run, 0, Buffer.from(Uint32Array.of(0, 0, 1, 0xffff_ffff).buffer)),
    ],
    'a run with more than its lists': [
      /head of 28 bytes, not 24/,
      (caller) => caller.send(KIND.run, 0, Buffer.from(new Uint32Array(7).buffer)),
    ],
  };

  it.each(Object.entries(cases))(
    '%s ends the connection, and has no other effect',
    async (_, [what, send]) => {
      const before = liveHandles().tensor;
      const caller = await Caller.connect();
      send(caller, stageOf());
      expect(await caller.closed).toMatchObject({
        code: 'SHOAL_CORRUPT',
        message: expect.stringMatching(what),
      });
      await caller.reply();
      expect(liveHandles().tensor).toBe(before);
    },
  );

  it('a run with the wrong number of tensors fails; a cancellation of an unknown run has no effect', async () => {
    const caller = await Caller.connect();
    caller.register(0, stageOf());
    caller.send(KIND.cancel, 12);
    caller.send(KIND.run, 1, encodeRun({ stage: 0, timeoutMs: undefined }));
    caller.run(2, 0, [3]);
    const replies = await caller.reply(2);
    expect(replies.map(({ kind, id }) => [kind, id]).sort()).toEqual([
      [KIND.result, 2],
      [KIND.failure, 1],
    ]);
    caller.connection.close();
  });

  it('a run that uses a tensor which is not kept fails alone, and is not repeated as after a loss', async () => {
    const before = liveHandles().tensor;
    const caller = await Caller.connect();
    caller.register(0, stageOf());
    const keeping = { present: [{ at: 0, tensor: 3 }], keeps: [], withheld: [] };
    const kept = { run: 5, keeping };
    caller.send(KIND.run, 1, encodeRun({ stage: 0, timeoutMs: undefined, kept }));
    caller.run(2, 0, [3]);
    const replies = await caller.reply(2);
    const failure = replies.find(({ id }) => id === 1);
    expect(failure && decodeFailure(failure.head, TASK)).toMatchObject({
      code: 'SHOAL_INTERNAL',
      message: 'tensor 3 of run 5 is not here',
    });
    expect(replies.find(({ id }) => id === 2)?.kind).toBe(KIND.result);
    for (const { tensors } of replies) for (const tensor of tensors) tensor.dispose();
    caller.connection.close();
    await caller.closed;
    expect(liveHandles().tensor).toBe(before);
  });

  it('the number of runs that keep tensors is bounded', async () => {
    const caller = await Caller.connect();
    caller.register(0, stageOf());
    const keeping = { present: [], keeps: [{ at: 0, tensor: 1, uses: 1 }], withheld: [] };
    const run = (number: number) => {
      const head = encodeRun({ stage: 0, timeoutMs: undefined, kept: { run: number, keeping } });
      caller.send(KIND.run, number, head, [Tensor.of([1, 2], { dtype: 'float32' })]);
    };
    for (let number = 0; number < 4096; number += 1024) {
      for (let i = 0; i < 1024; i++) run(number + i);
      const kinds = (await caller.reply(1024)).map(({ kind }) => kind);
      expect(new Set(kinds)).toEqual(new Set([KIND.result]));
    }
    run(4096);
    const [refused] = await caller.reply();
    expect(refused && decodeFailure(refused.head, TASK).code).toBe('SHOAL_TF_RESOURCE_EXHAUSTED');
    caller.connection.close();
    await caller.closed;
  });

  it('random sequences end with a coded error or with replies, and leave nothing behind', async () => {
    const random = randomNumbers(5);
    const stages = [stageOf(1), stageOf(2), stageOf(3)];
    const round = async () => {
      const caller = await Caller.connect();
      for (let count = random(12); count > 0; count--) {
        const [id, at] = [random(3), random(3)];
        const stage = stages[at] as Stage;
        const noise = Buffer.from(Array.from({ length: random(20) }, () => random(256)));
        [
          () => caller.register(id, stage),
          () => caller.register(id, stage, noise),
          () => caller.run(random(100), at, [1, 2, 3]),
          () => caller.send(KIND.cancel, random(100)),
          () => caller.send(random(8), id, noise, [Tensor.of([1])]),
        ][random(5)]?.();
      }
      // Everything that was sent before is processed before the connection ends.
      process.nextTick(() => caller.socket.end());
      const error = await caller.closed;
      expect(isShoalError(error)).toBe(true);
      expect(['SHOAL_CORRUPT', 'SHOAL_UNREACHABLE']).toContain(error.code);
      for (const { tensors } of caller.replies) for (const tensor of tensors) tensor.dispose();
    };
    for (let i = 0; i < 20; i++) await round();
    const before = { handles: liveHandles().tensor, bytes: nativeBytes() };
    for (let i = 0; i < 200; i++) await round();
    // Runs of the first rounds may not have ended when they were counted.
    await expect.poll(() => liveHandles().tensor, { timeout: 20_000 }).toBeLessThanOrEqual(before.handles);
    expect(nativeBytes()).toBeLessThanOrEqual(before.bytes);
    expect(host.stages).toBeLessThanOrEqual(stages.length);
  });
});

it('a caller that does not read its replies is not served any more, and costs a bounded amount of memory', async () => {
  const copies = 8;
  const stage = stageOf(copies);
  const caller = await Caller.connect();
  caller.register(0, stage);
  caller.run(0, 0, [1]);
  await caller.reply();
  const before = { rss: process.memoryUsage.rss(), handles: liveHandles().tensor };
  caller.socket.pause();
  const values = new Float32Array(LARGE / 4 / copies);
  const runs = 48;
  for (let id = 1; id <= runs; id++) caller.run(id, 0, values);
  // Until nothing changes any more: the service has stopped reading.
  let last = -1;
  for (let unchanged = 0; unchanged < 20; ) {
    const now = Math.round((process.memoryUsage.rss() - before.rss) / LARGE);
    unchanged = now === last ? unchanged + 1 : 0;
    last = now;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  // Runs that it had received until then are answered; how many depends on the speed of both sides.
  expect(last).toBeLessThanOrEqual(runs + 8);
  caller.socket.resume();
  const replies = await caller.reply(runs);
  expect(replies.map(({ kind }) => kind)).toEqual(Array(runs).fill(KIND.result));
  for (const { tensors } of replies) for (const tensor of tensors) tensor.dispose();
  caller.connection.close();
  await caller.closed;
  await expect.poll(() => liveHandles().tensor, { timeout: 20_000 }).toBe(before.handles);
});
