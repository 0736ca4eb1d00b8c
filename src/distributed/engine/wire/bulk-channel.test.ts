/** Large tensors on a connection of their own, over real sockets. */
import { readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ShoalError } from '../../../base/errors/errors.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { COPY_LIMIT, Tensor } from '../../../tensorflow/tensor/tensor.js';
import { openBulk, openHalf } from '../testing/bulk.js';
import { randomNumbers } from '../testing/random-graph.js';
import { SocketPairs } from '../testing/socket-pair.js';
import { Connection, type WireLimits, type WireMessage } from './connection.js';

const NO_HEAD = new Uint8Array(0);
const BULK_BYTES = 64 * 1024;
const MB = 2 ** 20;

let pairs: SocketPairs;
let before: number;
const open: Connection[] = [];
beforeAll(async () => {
  pairs = await SocketPairs.listen();
});
afterAll(() => pairs.close());
beforeEach(() => {
  before = liveHandles().tensor;
});
afterEach(async () => {
  for (const connection of open.splice(0)) connection.close();
  await expect.poll(() => liveHandles().tensor, { timeout: 20_000 }).toBe(before);
});

/** A connection with what it has received. */
class End {
  readonly connection: Connection;
  readonly received: WireMessage[] = [];
  readonly closes: ShoalError[] = [];
  #wake = () => {};

  constructor(socket: Socket, label: string, limits: Partial<WireLimits> = {}) {
    this.connection = new Connection(socket, {
      label,
      limits: { maxQueuedBytes: Number.POSITIVE_INFINITY, ...limits },
      bulkBytes: BULK_BYTES,
      onMessage: (message) => {
        this.received.push(message);
        this.#wake();
      },
      onClose: (error) => {
        this.closes.push(error);
        this.#wake();
      },
    });
    open.push(this.connection);
  }

  send(id: number, ...tensors: Tensor[]): void {
    this.connection.send({ kind: 7, id, head: NO_HEAD, tensors });
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async take(count: number): Promise<WireMessage[]> {
    await this.until(() => this.received.length >= count || this.closes.length > 0);
    expect(this.closes).toEqual([]);
    return this.received.splice(0, count);
  }

  async closed(): Promise<ShoalError> {
    await this.until(() => this.closes.length > 0);
    for (const { tensors } of this.received.splice(0)) for (const tensor of tensors) tensor.dispose();
    return this.closes[0] as ShoalError;
  }
}

async function ends(limits: Partial<WireLimits> = {}) {
  const sockets = await pairs.pair();
  const [a, b] = [new End(sockets.client, 'b', limits), new End(sockets.server, 'a', limits)];
  return { a, b, sockets };
}

async function bulkEnds(limits: Partial<WireLimits> = {}) {
  const { a, b, sockets } = await ends(limits);
  const channels = await openBulk(pairs, a.connection, b.connection);
  return { a, b, sockets, channels };
}

/** In TensorFlow's memory if it is large enough. */
function patterned(length: number, seed: number): Tensor<'uint8'> {
  const bytes = new Uint8Array(length);
  for (let i = 0, x = seed; i < length; i++) {
    x = Math.imul(x, 1_664_525) + 1_013_904_223;
    bytes[i] = x >>> 24;
  }
  const tensor = Tensor.allocate([length], 'uint8');
  tensor.setBytes(bytes, 0);
  return tensor;
}

const copyOf = (tensor: Tensor): Buffer => {
  const { bytes, giveBack } = tensor.lendBytes(0, tensor.byteLength);
  const copy = Buffer.from(bytes);
  giveBack();
  return copy;
};

function expectPattern(tensor: Tensor | undefined, length: number, seed: number): void {
  using expected = patterned(length, seed);
  expect(tensor?.byteLength).toBe(length);
  expect(copyOf(tensor!).equals(copyOf(expected))).toBe(true);
}

/** Sends a new tensor and frees it. */
function sendPattern(end: End, id: number, length: number): void {
  using tensor = patterned(length, id);
  end.send(id, tensor);
}

describe('a bulk channel', () => {
  it('carries tensors of all sizes around the threshold bit for bit, in both directions at once', async () => {
    const { a, b, channels } = await bulkEnds();
    const sizes = [
      1,
      COPY_LIMIT,
      COPY_LIMIT + 1,
      BULK_BYTES - 1,
      BULK_BYTES,
      BULK_BYTES + 1,
      MB + 3,
      9 * MB + 5,
    ];
    for (const end of [a, b]) for (const [id, size] of sizes.entries()) sendPattern(end, id, size);
    for (const end of [a, b]) {
      for (const [at, { id, tensors }] of (await end.take(sizes.length)).entries()) {
        expect(id).toBe(at);
        expectPattern(tensors[0], sizes[at]!, id);
        tensors[0]?.dispose();
      }
    }
    const bulk = sizes.filter((size) => size >= BULK_BYTES).reduce((sum, size) => sum + size);
    expect(channels.map(({ bytesRead }) => bytesRead)).toEqual([bulk, bulk]);
    expect(channels.map(({ bytesWritten }) => bytesWritten)).toEqual([bulk, bulk]);
    await expect
      .poll(() => [a.connection.queuedBytes, b.connection.queuedBytes], { timeout: 20_000 })
      .toEqual([0, 0]);
  });

  it('keeps booleans, strings and numbers in JavaScript memory in the message', async () => {
    const { a, b, channels } = await bulkEnds();
    const flags = Tensor.of(new Uint8Array(BULK_BYTES).fill(1), { dtype: 'bool', shape: [BULK_BYTES] });
    const numbers = Tensor.of(new Float64Array(BULK_BYTES).fill(0.5));
    const strings = Tensor.of(Array.from({ length: 20_000 }, (_, i) => `element ${i}`));
    a.send(1, flags, numbers, strings);
    const [got] = await b.take(1);
    expect(got?.tensors.map(({ dtype, size }) => [dtype, size])).toEqual([
      ['bool', BULK_BYTES],
      ['float64', BULK_BYTES],
      ['string', 20_000],
    ]);
    expect(channels.map(({ bytesRead }) => bytesRead)).toEqual([0, 0]);
    for (const tensor of got!.tensors) tensor.dispose();
  });

  it('delivers 200 random messages in order, with the tensors at their places', async () => {
    const { a, b } = await bulkEnds();
    const random = randomNumbers(11);
    const sent: { readonly id: number; readonly sizes: readonly number[] }[] = [];
    const sizeOf = () =>
      [random(40), random(COPY_LIMIT), BULK_BYTES + random(MB), random(BULK_BYTES)][random(4)]!;
    for (let id = 0; id < 200; id++) {
      const sizes = Array.from({ length: random(4) }, sizeOf);
      const tensors = sizes.map((size, at) => patterned(size, id * 7 + at));
      a.send(id, ...tensors);
      for (const tensor of tensors) tensor.dispose();
      sent.push({ id, sizes });
      if (random(5) === 0) await new Promise(setImmediate);
    }
    const got = await b.take(200);
    expect(
      got.map(({ id, tensors }) => ({ id, sizes: tensors.map(({ byteLength }) => byteLength) })),
    ).toEqual(sent);
    for (const { id, tensors } of got) {
      for (const [at, tensor] of tensors.entries()) {
        if (tensor.byteLength > 0) expectPattern(tensor, tensor.byteLength, id * 7 + at);
        tensor.dispose();
      }
    }
  });

  it('moves 64 MB both ways at once, through processes that do not wait for each other', async () => {
    const { a, b } = await bulkEnds();
    for (let id = 0; id < 4; id++) for (const end of [a, b]) sendPattern(end, id, 16 * MB);
    for (const end of [a, b]) {
      for (const { id, tensors } of await end.take(4)) {
        expectPattern(tensors[0], 16 * MB, id);
        tensors[0]?.dispose();
      }
    }
  });

  it('begins in the middle of a connection', async () => {
    const { a, b } = await ends();
    sendPattern(a, 1, MB);
    const [first] = await b.take(1);
    await openBulk(pairs, a.connection, b.connection);
    sendPattern(a, 2, MB);
    const [second] = await b.take(1);
    expectPattern(first?.tensors[0], MB, 1);
    expectPattern(second?.tensors[0], MB, 2);
    for (const message of [first, second]) message?.tensors[0]?.dispose();
  });

  it('stops reading messages while many wait for a tensor, and continues', async () => {
    const { a, b, sockets } = await ends({ maxWaitingBytes: 100_000 });
    const [toA, fromB] = [await openHalf(pairs, a.connection), await openHalf(pairs, b.connection)];
    using tensor = patterned(MB, 3);
    b.send(0, tensor);
    for (let id = 1; id < 200; id++) b.send(id, Tensor.of(new Uint8Array(2000).fill(1)));
    await expect.poll(() => sockets.client.isPaused(), { timeout: 10_000 }).toBe(true);
    expect(a.received).toEqual([]);
    fromB.pipe(toA);
    const got = await a.take(200);
    expect(got.map(({ id }) => id)).toEqual(Array.from({ length: 200 }, (_, id) => id));
    expectPattern(got[0]?.tensors[0], MB, 3);
    got[0]?.tensors[0]?.dispose();
  });
});

describe('the end of a bulk channel', () => {
  it.each(['while it sends', 'while it receives'])('ends the connection %s', async (when) => {
    const { a, b } = await ends();
    const other = await openHalf(pairs, a.connection);
    if (when === 'while it sends') {
      other.pause();
      await openHalf(pairs, b.connection);
      sendPattern(a, 1, 32 * MB);
    } else {
      await openHalf(pairs, b.connection);
      sendPattern(b, 1, 32 * MB);
      await new Promise((resolve) => setTimeout(resolve, 50));
      other.write(Buffer.alloc(MB));
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    other.destroy();
    expect(await a.closed()).toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringMatching(/connection to b is broken: the channel of its tensors broke/),
    });
    expect((await b.closed()).code).toBe('SHOAL_UNREACHABLE');
  });

  it('is noticed without any transfer', async () => {
    const { a } = await ends();
    const other = await openHalf(pairs, a.connection);
    other.destroy();
    if (process.platform === 'linux') expect((await a.closed()).code).toBe('SHOAL_UNREACHABLE');
  });

  it('follows that of the connection, and frees what was on its way', async () => {
    const { a, b, channels, sockets } = await bulkEnds();
    for (const end of [a, b]) sendPattern(end, 1, 64 * MB);
    sockets.client.destroy();
    await Promise.all([a.closed(), b.closed(), ...channels.map(({ ended }) => ended)]);
  });

  it('leaves nothing behind in 50 connections that are closed under load', async () => {
    const descriptors = () => (process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0);
    const random = randomNumbers(3);
    let at = 0;
    using tensor = patterned(8 * MB, 1);
    for (let round = 0; round < 50; round++) {
      const { a, b, channels } = await bulkEnds();
      for (const end of [a, b]) for (let id = 0; id < 6; id++) end.send(id, tensor);
      await new Promise((resolve) => setTimeout(resolve, random(12)));
      [a, b][random(2)]?.connection.close();
      await Promise.all([a.closed(), b.closed(), ...channels.map(({ ended }) => ended)]);
      if (round === 4) at = descriptors();
    }
    await expect.poll(descriptors, { timeout: 10_000 }).toBeLessThanOrEqual(at + 2);
  });
});

describe('a peer that is not as it should be', () => {
  it('is disconnected if it announces a tensor and sends nothing of it', async () => {
    const { a, b } = await ends({ stallMs: 200 });
    await openHalf(pairs, a.connection);
    await openHalf(pairs, b.connection);
    using tensor = patterned(BULK_BYTES, 1);
    b.send(1, tensor);
    expect(await a.closed()).toMatchObject({
      code: 'SHOAL_TIMEOUT',
      message: expect.stringMatching(/^b has announced a tensor, and sent nothing of it for 200 ms/),
    });
  });

  it('is disconnected if it does not take a tensor', async () => {
    const a = new End((await pairs.pair()).client, 'b', { stallMs: 200 });
    (await openHalf(pairs, a.connection)).pause();
    sendPattern(a, 1, 64 * MB);
    expect(await a.closed()).toMatchObject({
      code: 'SHOAL_TIMEOUT',
      message: expect.stringMatching(/^b has not read anything for 200 ms/),
    });
  });

  it('may not announce tensors without a channel, or more of them than a message may have', async () => {
    const small = await ends();
    await openHalf(pairs, small.b.connection);
    sendPattern(small.b, 1, BULK_BYTES);
    expect(await small.a.closed()).toMatchObject({
      code: 'SHOAL_CORRUPT',
      message: expect.stringMatching(/takes the bulk channel, and there is none/),
    });
    const sockets = await pairs.pair();
    const a = new End(sockets.client, 'b', { maxMessageBytes: MB });
    const b = new End(sockets.server, 'a');
    await openBulk(pairs, a.connection, b.connection);
    sendPattern(b, 1, MB);
    expect(await a.closed()).toMatchObject({
      code: 'SHOAL_CORRUPT',
      message: expect.stringMatching(/exceeds the limit of 1048576 bytes/),
    });
    expect((await b.closed()).code).toBe('SHOAL_UNREACHABLE');
  });
});
