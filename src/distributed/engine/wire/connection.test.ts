import { once } from 'node:events';
import type { Socket } from 'node:net';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import { wordsPerElement } from '../../../tensorflow/tensor/literal.js';
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import { COPY_LIMIT, Tensor } from '../../../tensorflow/tensor/tensor.js';
import { SocketPairs } from '../testing/socket-pair.js';
import { Connection, type WireLimits, type WireMessage } from './connection.js';
import { isSendable } from './frame.js';

let pairs: SocketPairs;
beforeAll(async () => {
  pairs = await SocketPairs.listen();
});
afterAll(() => pairs.close());

const NO_HEAD = new Uint8Array(0);
const message = (tensors: Tensor[] = [], id = 1): WireMessage => ({ kind: 7, id, head: NO_HEAD, tensors });

/** A connection with what it has received. */
class End {
  readonly connection: Connection;
  readonly received: WireMessage[] = [];
  readonly closes: ShoalError[] = [];
  #wake = () => {};

  constructor(socket: Socket, label: string, limits: Partial<WireLimits> = {}) {
    const onMessage = (each: WireMessage) => {
      this.received.push(each);
      this.#wake();
    };
    const onClose = (error: ShoalError) => {
      this.closes.push(error);
      this.#wake();
    };
    this.connection = new Connection(socket, { label, limits, onMessage, onClose });
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The next messages. */
  async take(count: number): Promise<WireMessage[]> {
    await this.until(() => this.received.length >= count || this.closes.length > 0);
    expect(this.closes).toEqual([]);
    return this.received.splice(0, count);
  }

  async closed(): Promise<ShoalError> {
    await this.until(() => this.closes.length > 0);
    return this.closes[0] as ShoalError;
  }
}

async function ends(limits: Partial<WireLimits> = {}) {
  const { client, server } = await pairs.pair();
  return {
    client: new End(client, 'the server', limits),
    server: new End(server, 'the client', limits),
    sockets: { client, server },
  };
}

const bytesOf = (tensor: Tensor): Buffer =>
  tensor.dtype === 'string'
    ? Buffer.concat(tensor.bytes().flatMap((bytes) => [Buffer.from(`${bytes.length}:`), bytes]))
    : Buffer.from(tensor.lendBytes(0, tensor.byteLength).bytes);

const describeTensor = (tensor: Tensor) => ({
  dtype: tensor.dtype,
  shape: tensor.shape,
  bytes: bytesOf(tensor).toString('base64'),
});

/** A large float32 tensor in TensorFlow's memory, with a pattern that depends on the seed. */
function large(bytes: number, seed = 0): Tensor {
  const tensor = Tensor.allocate([bytes / 4], 'float32');
  const part = new Uint32Array(16_384);
  for (let at = 0; at < bytes; at += part.byteLength) {
    for (let i = 0; i < part.length; i++) part[i] = Math.imul(at + i + seed, 0x9e3779b1);
    tensor.setBytes(new Uint8Array(part.buffer, 0, Math.min(part.byteLength, bytes - at)), at);
  }
  return tensor;
}

const SENDABLE = (Object.keys(DTYPES) as DType[]).filter(isSendable);

function arbitraryTensor(dtype: DType): fc.Arbitrary<Tensor> {
  return fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 }).chain((shape): fc.Arbitrary<Tensor> => {
    const size = sizeOf(shape);
    const exactly = { minLength: size, maxLength: size };
    if (dtype === 'string') {
      return fc
        .array(fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.string({ unit: 'grapheme' })), exactly)
        .map((values) => Tensor.of(values, { dtype, shape }));
    }
    const { array: ArrayType, size: bytes } = DTYPES[dtype] as { array: Uint8ArrayConstructor; size: number };
    const isNarrow = dtype === 'bool' || /int[24]$/.test(dtype);
    const length = size * bytes;
    return fc.uint8Array({ minLength: length, maxLength: length, max: isNarrow ? 1 : 255 }).map((raw) => {
      const words = new ArrayType(raw.slice().buffer, 0, size * wordsPerElement(dtype));
      return Tensor.of(words, { dtype, shape });
    });
  });
}

describe('a connection', () => {
  it('carries tensors of every type and shape in both directions', async () => {
    const { client, server } = await ends();
    const tensor = fc.constantFrom(...SENDABLE).chain(arbitraryTensor);
    const property = fc.asyncProperty(
      fc.array(tensor, { maxLength: 6 }),
      fc.uint8Array({ maxLength: 30 }),
      fc.integer({ min: 0, max: 255 }),
      fc.integer({ min: 0, max: 0xffffffff }),
      async (tensors, head, kind, id) => {
        for (const [from, to] of [
          [client, server],
          [server, client],
        ] as const) {
          from.connection.send({ kind, id, head, tensors });
          const [got] = await to.take(1);
          expect([got?.kind, got?.id, Buffer.from(got!.head)]).toEqual([kind, id, Buffer.from(head)]);
          expect(got?.tensors.map(describeTensor)).toEqual(tensors.map(describeTensor));
        }
      },
    );
    await fc.assert(property, { numRuns: 150 });
    client.connection.close();
  });

  it.each(SENDABLE)('carries %s tensors', async (dtype) => {
    const { client, server } = await ends();
    const tensors = fc.sample(arbitraryTensor(dtype), { numRuns: 10, seed: 1 });
    client.connection.send(message(tensors));
    const [got] = await server.take(1);
    expect(got?.tensors.map(describeTensor)).toEqual(tensors.map(describeTensor));
    client.connection.close();
  });

  it('carries a bfloat16, a complex number and a big integer as such', async () => {
    const { client, server } = await ends();
    client.connection.send(
      message([
        Tensor.of(1.5, { dtype: 'bfloat16' }),
        Tensor.of([{ re: 1, im: -2 }], { dtype: 'complex128' }),
        Tensor.of(2n ** 62n),
        Tensor.of(['a', 'ü', '']),
      ]),
    );
    const [got] = await server.take(1);
    expect(got?.tensors.map((tensor) => tensor.toArray())).toEqual([
      1.5,
      [{ re: 1, im: -2 }],
      2n ** 62n,
      ['a', 'ü', ''],
    ]);
    client.connection.close();
  });

  it('keeps the order of many messages of one tick, and of large among small tensors', async () => {
    const { client, server } = await ends();
    const before = liveHandles().tensor;
    const count = 3000;
    for (let id = 0; id < count; id++) {
      const tensors = [Tensor.of(id), ...(id % 500 === 0 ? [large(200_004, id)] : [])];
      client.connection.send({ kind: id % 256, id, head: Buffer.from(String(id)), tensors });
      for (const tensor of tensors) tensor.dispose();
    }
    const got = await server.take(count);
    expect(got.map(({ id }) => id)).toEqual(Array.from({ length: count }, (_, i) => i));
    for (const { id, head, tensors } of got) {
      expect(Buffer.from(head).toString()).toBe(String(id));
      expect(tensors[0]?.item()).toBe(id);
      if (id % 500 !== 0) continue;
      using sent = large(200_004, id);
      expect(bytesOf(tensors[1]!).equals(bytesOf(sent))).toBe(true);
      tensors[1]!.dispose();
    }
    expect(liveHandles().tensor).toBe(before);
    client.connection.close();
  });

  it('writes the messages of one tick at once', async () => {
    const { client, server, sockets } = await ends();
    let reads = 0;
    sockets.server.on('data', () => reads++);
    for (let id = 0; id < 100; id++) client.connection.send(message([Tensor.of(id)], id));
    await server.take(100);
    expect(reads).toBe(1);
    client.connection.close();
  });

  it.each([1, 64])('carries tensors of %d MB, disposed at once by the sender', async (mb) => {
    const { client, server } = await ends();
    const before = liveHandles().tensor;
    const tensor = large(mb * 2 ** 20 + 4);
    client.connection.send(message([tensor, Tensor.of('x'), tensor]));
    const expected = bytesOf(tensor);
    tensor.dispose();
    const [got] = await server.take(1);
    const [first, text, second] = got!.tensors as [Tensor, Tensor, Tensor];
    expect(bytesOf(first).equals(expected)).toBe(true);
    expect(bytesOf(second).equals(expected)).toBe(true);
    expect(text.bytes()[0]).toEqual(new TextEncoder().encode('x'));
    first.dispose();
    second.dispose();
    await expect.poll(() => liveHandles().tensor).toBe(before);
    expect(client.connection.queuedBytes).toBe(0);
    client.connection.close();
  });

  it('gathers the messages of one iteration of the event loop with TLS, once several came together', async () => {
    const tick = () => new Promise<void>((resolve) => process.nextTick(resolve));
    for (const encrypted of [true, false]) {
      const { client: socket, server: peer } = await pairs.pair();
      const client = new End(Object.assign(socket, { encrypted }), 'the server');
      const server = new End(peer, 'the client');
      const writes = vi.spyOn(socket, 'write');
      const writesOf = async (...groups: number[]) => {
        writes.mockClear();
        for (const [i, count] of groups.entries()) {
          if (i > 0) await tick().then(tick);
          for (let id = 0; id < count; id++) client.connection.send(message([Tensor.of(id)], id));
        }
        await server.take(groups.reduce((a, b) => a + b));
        return writes.mock.calls.length;
      };
      expect(await writesOf(1)).toBe(1);
      expect(await writesOf(2)).toBe(1);
      // Sent from two callbacks of one iteration.
      expect(await writesOf(1, 1)).toBe(encrypted ? 1 : 2);
      expect(await writesOf(1)).toBe(1);
      client.connection.close();
    }
  });

  it('carries large tensors in JavaScript memory, and large strings', async () => {
    const { client, server } = await ends();
    const numbers = Tensor.of(new Float64Array(100_000).fill(0.5));
    const strings = Tensor.of(Array.from({ length: 20_000 }, (_, i) => `element ${i}`));
    const flags = Tensor.of(new Uint8Array(COPY_LIMIT + 1).fill(1), {
      dtype: 'bool',
      shape: [COPY_LIMIT + 1],
    });
    client.connection.send(message([numbers, strings, flags]));
    const [got] = await server.take(1);
    expect(got?.tensors.map(describeTensor)).toEqual([numbers, strings, flags].map(describeTensor));
    for (const tensor of got!.tensors) tensor.dispose();
    client.connection.close();
  });

  it('gives tensors memory that later messages do not change', async () => {
    const { client, server } = await ends();
    for (let id = 0; id < 50; id++) {
      client.connection.send(message([Tensor.of(id), Tensor.of(new Float64Array(1000).fill(id))]));
      if (id % 7 === 0) await new Promise(setImmediate);
    }
    const got = await server.take(50);
    for (const [i, { tensors }] of got.entries()) {
      expect([tensors[0]?.item(), new Set(tensors[1]?.data as Float64Array)]).toEqual([i, new Set([i])]);
      expect(tensors[1]!.data.byteOffset % 8).toBe(0);
    }
    client.connection.close();
  });

  it('carries long heads', async () => {
    const { client, server } = await ends();
    const head = new Uint8Array(1_000_001).map((_, i) => i);
    for (let id = 0; id < 3; id++) client.connection.send({ kind: 1, id, head, tensors: [Tensor.of(id)] });
    for (const [i, got] of (await server.take(3)).entries()) {
      expect(Buffer.from(got.head).equals(head)).toBe(true);
      expect(got.tensors[0]?.item()).toBe(i);
    }
    client.connection.close();
  });

  it('takes bytes that were read before', async () => {
    const first = await ends();
    const chunks: Buffer[] = [];
    first.sockets.server.on('data', (chunk) => chunks.push(chunk));
    first.client.connection.send(message([Tensor.of([1, 2, 3])], 1));
    first.client.connection.send(message([Tensor.of([4])], 2));
    await first.server.take(2);
    const all = Buffer.concat(chunks);
    first.client.connection.close();
    const { client, server } = await pairs.pair();
    const got: WireMessage[] = [];
    const done = new Promise<void>((resolve) => {
      const onMessage = (each: WireMessage) => got.push(each) === 2 && resolve();
      new Connection(server, { label: 'x', onMessage, onClose: () => {} }, all.subarray(0, 50));
    });
    client.write(all.subarray(50));
    await done;
    expect(got.map(({ tensors }) => tensors[0]?.toArray())).toEqual([[1, 2, 3], [4]]);
  });

  it('refuses to send references, invalid numbers and disposed tensors, and stays usable', async () => {
    const { client, server } = await ends({ maxHeadBytes: 10, maxTensors: 2, maxMessageBytes: 2 ** 20 });
    const before = liveHandles().tensor;
    const { connection } = client;
    const handle = { dtype: 'resource', shape: [] } as unknown as Tensor;
    using live = large(40_000);
    expect(() => connection.send(message([live, handle]))).toThrow(/resource tensor cannot be sent/);
    expect(() => connection.send({ ...message(), kind: 256 })).toThrow(/kind/);
    expect(() => connection.send({ ...message(), id: -1 })).toThrow(/id/);
    expect(() => connection.send({ ...message(), head: new Uint8Array(11) })).toThrow(/head of 11 bytes/);
    expect(() => connection.send(message([Tensor.of(1), Tensor.of(1), Tensor.of(1)]))).toThrow(/3 tensors/);
    using tooLarge = large(2 ** 20);
    expect(() => connection.send(message([tooLarge]))).toThrow(/exceeds the limit/);
    const gone = large(40_000);
    gone.dispose();
    expect(() => connection.send(message([live, gone]))).toThrowError(
      expect.objectContaining({ code: 'SHOAL_DISPOSED' }),
    );
    connection.send(message([Tensor.of(5)]));
    expect((await server.take(1))[0]?.tensors[0]?.item()).toBe(5);
    live.dispose();
    tooLarge.dispose();
    expect(liveHandles().tensor).toBe(before);
    connection.close();
  });
});

describe('the end of a connection', () => {
  it('is reported once on both sides, and sending is ignored afterwards', async () => {
    const { client, server } = await ends();
    client.connection.close(new ShoalError('SHOAL_TIMEOUT', 'too slow'));
    client.connection.close();
    expect(client.closes.map(({ code }) => code)).toEqual(['SHOAL_TIMEOUT']);
    expect(client.connection.closed).toBe(true);
    client.connection.send(message([Tensor.of(1)]));
    const error = await server.closed();
    expect(error.code).toBe('SHOAL_UNREACHABLE');
    expect(error.message).toContain('the client');
    server.connection.send(message([Tensor.of(1)]));
    await new Promise(setImmediate);
    expect(server.closes).toHaveLength(1);
  });

  it('is reported for a socket that has closed before', async () => {
    const { client } = await pairs.pair();
    client.destroy();
    await once(client, 'close');
    const end = new End(client, 'the server');
    expect(end.closes).toEqual([]);
    expect((await end.closed()).code).toBe('SHOAL_UNREACHABLE');
  });

  it('frees tensors that were received in part, and those that were not written', async () => {
    const before = liveHandles().tensor;
    const { client, server, sockets } = await ends();
    for (let i = 0; i < 4; i++) {
      const tensor = large(16 << 20);
      client.connection.send(message([Tensor.of(1), tensor]));
      tensor.dispose();
    }
    await once(sockets.server, 'data');
    sockets.server.destroy();
    expect((await server.closed()).message).toContain('in the middle of a message');
    expect((await client.closed()).code).toBe('SHOAL_UNREACHABLE');
    for (const { tensors } of server.received) for (const tensor of tensors) tensor.dispose();
    await expect.poll(() => liveHandles().tensor).toBe(before);
  });

  it('follows from an error of the receiver', async () => {
    const { client, server } = await pairs.pair();
    const sender = new End(client, 'the server');
    const error = new Promise<ShoalError>((onClose) => {
      const onMessage = () => {
        throw new Error('not today');
      };
      new Connection(server, { label: 'the client', onMessage, onClose });
    });
    sender.connection.send(message());
    expect(await error).toMatchObject({
      code: 'SHOAL_INTERNAL',
      message: expect.stringContaining('not today'),
    });
    await sender.closed();
  });

  it('may come from the receiver of a message, which then gets no further one', async () => {
    const { client, server } = await pairs.pair();
    const sender = new End(client, 'the server');
    const got: number[] = [];
    const onMessage = ({ id }: WireMessage) => {
      got.push(id);
      receiver.close();
    };
    const receiver = new Connection(server, { label: 'the client', onMessage, onClose: () => {} });
    sender.connection.send(message([], 1));
    sender.connection.send(message([], 2));
    await sender.closed();
    expect(got).toEqual([1]);
  });
});

describe('a peer that stops reading', () => {
  it('is disconnected when output makes no progress', async () => {
    const { client, server } = await pairs.pair();
    server.pause();
    const end = new End(client, 'the server', { stallMs: 200 });
    const before = liveHandles().tensor;
    const tensor = large(32 << 20);
    end.connection.send(message([tensor]));
    tensor.dispose();
    const error = await end.closed();
    expect(error).toMatchObject({ code: 'SHOAL_TIMEOUT', message: expect.stringContaining('the server') });
    await expect.poll(() => liveHandles().tensor).toBe(before);
  });

  it('is not read from while much output is pending', async () => {
    const { client, server } = await pairs.pair();
    const answer = new Float32Array(50_000);
    let answers = 0;
    const limits = { maxQueuedBytes: 1 << 20 };
    const onMessage = ({ id }: WireMessage) => {
      answers += 1;
      answering.send(message([Tensor.of(answer)], id));
    };
    const answering = new Connection(server, { label: 'the client', limits, onMessage, onClose: () => {} });
    const asking = new End(client, 'the server', { maxQueuedBytes: Number.POSITIVE_INFINITY });
    client.pause();
    const count = 500;
    for (let id = 0; id < count; id++) {
      asking.connection.send(message([Tensor.of(new Float32Array(1000))], id));
    }
    // The answers need 100 MB. The queue exceeds its limit by the answers to what one read contains.
    let seen = -1;
    await expect
      .poll(() => {
        const isSteady = answers > 0 && answers === seen;
        seen = answers;
        return isSteady;
      })
      .toBe(true);
    expect(answers).toBeLessThan(count / 2);
    expect(answering.queuedBytes).toBeGreaterThan(limits.maxQueuedBytes);
    expect(answering.queuedBytes).toBeLessThan(32 << 20);
    client.resume();
    const got = await asking.take(count);
    expect(got.map(({ id }) => id)).toEqual(Array.from({ length: count }, (_, i) => i));
    for (const { tensors } of got) tensors[0]?.dispose();
    asking.connection.close();
  });
});
