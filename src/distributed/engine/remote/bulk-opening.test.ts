/** How a caller and a service open a bulk channel, and what happens when they cannot. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { duplicateOf } from '../../../tensorflow/native/threads/descriptors.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { StageHost } from '../host/stage-host.js';
import { partition } from '../partition/partition.js';
import type { Stage } from '../partition/plan.js';
import type { StageEnded } from '../run-plan.js';
import { PLACEMENT } from '../testing/hosts.js';
import { SocketPairs } from '../testing/socket-pair.js';
import type { BulkChannel } from '../wire/bulk-channel.js';
import { BULK_BYTES, Connection } from '../wire/connection.js';
import type { BulkDialer, BulkListener } from './bulk-opening.js';
import { KIND } from './protocol.js';
import { RemoteStages } from './remote-stages.js';
import { StageService } from './stage-service.js';

const TASK = '/job:ps/task:0';
const SIZE = BULK_BYTES / 4;
const TOKEN = Uint8Array.of(4, 5, 6);
const NO_LISTENER = {} as BulkListener;

let pairs: SocketPairs;
let host: StageHost;
let negate: Stage;
let before: number;
const ends: { close(): void }[] = [];
beforeAll(async () => {
  pairs = await SocketPairs.listen();
  host = new StageHost({ task: TASK });
  const graph = new Graph();
  const { x, y } = graph.asDefault(() =>
    graph.device(TASK, () => {
      const x = raw.placeholder({ dtype: 'float32', shape: [null] });
      return { x, y: raw.neg(x) };
    }),
  );
  negate = partition(graph, { fetches: [y], targets: [], feeds: [x] }, PLACEMENT).stages[0] as Stage;
});
afterAll(async () => {
  await pairs.close();
  await host.close();
});
beforeEach(() => {
  before = liveHandles().tensor;
});
afterEach(async () => {
  for (const end of ends.splice(0)) end.close();
  await expect.poll(() => liveHandles().tensor, { timeout: 20_000 }).toBe(before);
});

/** A network with one caller, one service, and what became of their bulk channels. */
class Link {
  readonly channels: BulkChannel[] = [];
  readonly failures: string[] = [];
  readonly withdrawn: string[] = [];
  #attach: ((descriptor: number) => BulkChannel | undefined) | undefined;
  readonly listener: BulkListener = {
    offer: (attach) => {
      this.#attach = attach;
      return { token: TOKEN, withdraw: () => void this.withdrawn.push('offer') };
    },
  };
  readonly dialer: BulkDialer = {
    open: async (token) => {
      expect(token).toEqual(TOKEN);
      const { client, server } = await pairs.pair();
      const descriptors = [client, server].map((socket) => {
        const descriptor = duplicateOf(socket);
        socket.destroy();
        return descriptor;
      });
      const channel = this.#attach?.(descriptors[1] as number);
      if (channel) this.channels.push(channel);
      return descriptors[0] as number;
    },
    onOpen: (channel) => void this.channels.push(channel),
    onFailed: (reason) => void this.failures.push(reason),
  };
  stages!: RemoteStages;
  service!: StageService;

  async connect({ listener = this.listener, dialer = this.dialer, version = 3 as number } = {}) {
    const { client, server } = await pairs.pair();
    const bulk = listener === NO_LISTENER ? undefined : listener;
    this.service = new StageService(server, { host, label: 'the worker', version, bulk });
    this.stages = new RemoteStages(client, { task: TASK, label: TASK, version, bulk: dialer });
    ends.push(this.stages, this.service);
    return this;
  }

  /** Negates a tensor of equal numbers in TensorFlow's memory; resolves with the distinct results. */
  run(value: number, size = SIZE): Promise<unknown> {
    using tensor = Tensor.allocate([size], 'float32');
    tensor.setBytes(new Uint8Array(new Float32Array(size).fill(value).buffer), 0);
    return new Promise((resolve, reject) => {
      const done: StageEnded = (error, [output]) => {
        if (error) return reject(error);
        resolve([...new Set(output?.data as Float32Array)]);
        output?.dispose();
      };
      this.stages.start(negate, [tensor], 20_000, done, 0);
    });
  }
}

it('opens when a run has a large tensor, and carries the tensors of later runs', async () => {
  const link = await new Link().connect();
  expect(await link.run(1, 100)).toEqual([-1]);
  expect(link.channels).toEqual([]);
  expect(await link.run(2)).toEqual([-2]);
  await expect.poll(() => link.channels.length, { timeout: 20_000 }).toBe(2);
  for (let value = 3; value < 10; value++) expect(await link.run(value)).toEqual([-value]);
  const [service, caller] = link.channels as [BulkChannel, BulkChannel];
  // The service answers that way as soon as it knows that the caller is ready.
  await expect.poll(() => caller.bytesRead, { timeout: 20_000 }).toBe(7 * BULK_BYTES);
  expect([service.bytesRead, caller.bytesWritten]).toEqual([7 * BULK_BYTES, 7 * BULK_BYTES]);
  expect(await Promise.all([1, 2, 3, 4].map((value) => link.run(value, 3 * SIZE)))).toEqual([
    [-1],
    [-2],
    [-3],
    [-4],
  ]);
  expect(link.failures).toEqual([]);
});

it('ends with the connection, on both sides', async () => {
  for (const side of ['stages', 'service'] as const) {
    const link = await new Link().connect();
    await link.run(1);
    await expect.poll(() => link.channels.length, { timeout: 20_000 }).toBe(2);
    const running = link.run(2, 16 * SIZE).catch((error: Error) => error.message);
    link[side].close();
    await Promise.all(link.channels.map(({ ended }) => ended));
    expect(String(await running)).toMatch(/connection to/);
    expect(link.withdrawn).toEqual(['offer']);
  }
});

it('is not asked for with version 2 of the protocol', async () => {
  const link = await new Link().connect({ version: 2 });
  expect([await link.run(1), await link.run(2)]).toEqual([[-1], [-2]]);
  expect([link.channels, link.failures, link.withdrawn]).toEqual([[], [], []]);
});

it('is refused by a service without one, and tensors stay on the connection', async () => {
  const link = await new Link().connect({ listener: NO_LISTENER });
  expect(await link.run(1)).toEqual([-1]);
  await expect.poll(() => link.failures, { timeout: 20_000 }).toEqual(['the other task refused it']);
  expect(await link.run(2)).toEqual([-2]);
});

it('is given up when its connection cannot be opened, and tensors stay on the first one', async () => {
  const link = new Link();
  const dialer = { ...link.dialer, open: () => Promise.reject(new Error('no route')) };
  await link.connect({ dialer });
  expect(await link.run(1)).toEqual([-1]);
  await expect.poll(() => link.failures, { timeout: 20_000 }).toEqual(['no route']);
  expect(await link.run(2)).toEqual([-2]);
});

it('that opens too late is closed', async () => {
  const link = new Link();
  let onOpened = () => {};
  const opened = new Promise<void>((resolve) => {
    onOpened = resolve;
  });
  const dialer: BulkDialer = {
    ...link.dialer,
    open: async (token) => {
      const descriptor = await link.dialer.open(token);
      link.stages.close();
      await link.channels[0]?.ended;
      onOpened();
      return descriptor;
    },
  };
  await link.connect({ dialer });
  await link.run(1).catch(() => {});
  await opened;
  expect(link.channels.length).toBe(1);
});

it.each([
  [2, 'a token'],
  [4, 'that a channel is attached'],
  [5, 'that it is ready'],
  [9, 'nothing that is known'],
])('a service that is sent message %d, %s, out of turn closes the connection', async (state) => {
  const { client, server } = await pairs.pair();
  const reason = new Promise<Error>((onClose) => {
    ends.push(new StageService(server, { host, label: 'the worker', onClose }));
  });
  const caller = new Connection(client, { label: TASK, onMessage: () => {}, onClose: () => {} });
  ends.push(caller);
  caller.send({ kind: KIND.bulk, id: 0, head: Uint8Array.of(state), tensors: [] });
  expect(await reason).toMatchObject({
    code: 'SHOAL_CORRUPT',
    message: expect.stringMatching(`message ${state} about a bulk channel, which is none`),
  });
});
