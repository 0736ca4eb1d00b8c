/** Damaged and hostile input: a coded error, no other effect, and nothing left behind. */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSIONS } from '../../../base/bytes/versions.js';
import { isShoalError, type ShoalError } from '../../../base/errors/errors.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { nativeBytes } from '../../../tensorflow/native/library/pressure.js';
import { COPY_LIMIT, Tensor } from '../../../tensorflow/tensor/tensor.js';
import { SocketPairs } from '../testing/socket-pair.js';
import { Connection } from './connection.js';
import { Decoder, type WireMessage } from './decoder.js';
import { encode } from './encoder.js';
import { WIRE_LIMITS, type WireLimits } from './frame.js';
import { Inbox } from './inbox.js';
import { OutputQueue } from './output-queue.js';

let pairs: SocketPairs;
/** A small message, and one with a tensor in TensorFlow's memory. */
let small: Buffer;
let mixed: Buffer;

/** The bytes of messages, as a socket gets them. */
async function encoded(messages: readonly WireMessage[]): Promise<Buffer> {
  const { client, server } = await pairs.pair();
  const output = new OutputQueue(client, () => {});
  for (const message of messages) encode(message, output, WIRE_LIMITS);
  const size = output.pendingBytes;
  output.flush();
  const chunks: Buffer[] = [];
  for (let length = 0; length < size; ) {
    const [chunk] = (await once(server, 'data')) as [Buffer];
    chunks.push(chunk);
    length += chunk.length;
  }
  return Buffer.concat(chunks);
}

beforeAll(async () => {
  pairs = await SocketPairs.listen();
  const head = Buffer.from('head');
  const tensors = [Tensor.of([1, 2, 3]), Tensor.of(['ab', 'c']), Tensor.of([true]), Tensor.of(7n)];
  small = await encoded([{ kind: 3, id: 9, head, tensors }]);
  using large = Tensor.allocate([COPY_LIMIT], 'float32');
  mixed = await encoded([{ kind: 3, id: 9, head, tensors: [...tensors, large] }]);
});
afterAll(() => pairs.close());

/** A generator of reproducible numbers in [0, limit). */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Decodes bytes in chunks of random sizes; returns the number of messages and the error. */
function decode(bytes: Buffer, random: (limit: number) => number, limits: Partial<WireLimits> = {}) {
  const messages: WireMessage[] = [];
  const inbox = new Inbox((message) => messages.push(message));
  const decoder = new Decoder({ ...WIRE_LIMITS, ...limits }, (message) => inbox.push(message));
  let error: unknown;
  try {
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + random(random(2) === 0 ? 20 : bytes.length);
      // A copy: the decoder may keep the memory of a chunk.
      decoder.push(new Uint8Array(bytes.subarray(at, end)));
      at = end;
    }
  } catch (thrown) {
    error = thrown;
  }
  const isIncomplete = decoder.isInMessage;
  decoder.stop();
  for (const { tensors } of messages) for (const tensor of tensors) tensor.dispose();
  return { messages: messages.length, error, isIncomplete };
}

function setUint64(bytes: Buffer, at: number, value: bigint): Buffer {
  const changed = Buffer.from(bytes);
  changed.writeBigUInt64LE(value, at);
  return changed;
}

function setUint32(bytes: Buffer, at: number, value: number): Buffer {
  const changed = Buffer.from(bytes);
  changed.writeUInt32LE(value, at);
  return changed;
}

describe('a decoder', () => {
  const random = numbers(1);

  it('reads a message however it is divided', () => {
    for (let round = 0; round < 300; round++) {
      expect(decode(small, random)).toEqual({ messages: 1, error: undefined, isIncomplete: false });
    }
    for (let round = 0; round < 20; round++) expect(decode(mixed, random).messages).toBe(1);
  });

  it('delivers nothing of a truncated message', () => {
    for (let length = 0; length < small.length; length++) {
      const result = decode(small.subarray(0, length), random);
      expect(result).toEqual({ messages: 0, error: undefined, isIncomplete: length > 0 });
    }
  });

  it('refuses what is malformed, and says what', () => {
    const descriptors = 32 + 8;
    const cases: [Buffer, RegExp][] = [
      [setUint32(small, 0, 0x20544547), /header of a message is invalid/],
      [setUint32(small, 0, 0x0003_0953), /version 9 of the format/],
      [setUint32(small, 20, 1), /header of a message is invalid/],
      [setUint32(small, 8, 0xffffffff), /head of 4294967295 bytes exceeds/],
      [setUint32(small, 12, 70_000), /70000 tensors exceed/],
      [setUint32(small, 12, 3), /bytes after the descriptors/],
      [setUint32(small, 12, 5), /descriptors of the tensors are truncated|do not have/],
      [setUint32(small, 16, 0), /do not have 0 bytes of descriptors/],
      [setUint64(small, 24, 1n << 60n), /exceeds the limit of \d+ bytes/],
      [setUint64(small, 24, 8n), /do not fill a body of 8 bytes/],
      [setUint32(small, descriptors, 1 | (3 << 8)), /cannot have|truncated|too large|unknown/],
      [setUint32(small, descriptors, 20 | (1 << 8)), /unknown data type 20/],
      [setUint32(small, descriptors, 101 | (1 << 8)), /unknown data type 101/],
      [setUint32(small, descriptors, 99 | (1 << 8)), /unknown data type 99/],
      [setUint32(small, descriptors + 4, 1), /unknown data type/],
      [setUint64(small, descriptors + 8, 1n << 63n), /float32 tensor of shape \[3\] cannot have/],
      [setUint64(small, descriptors + 16, 4n), /float32 tensor of shape \[4\] cannot have 12 bytes/],
      [setUint64(small, descriptors + 16, (1n << 64n) - 1n), /too large/],
    ];
    for (const [bytes, what] of cases) {
      for (let round = 0; round < 3; round++) {
        const { messages, error } = decode(bytes, random);
        expect(messages).toBe(0);
        expect(error).toMatchObject({ code: 'SHOAL_CORRUPT', message: expect.stringMatching(what) });
      }
    }
  });

  it('refuses a shape with a zero whose other sizes overflow', async () => {
    const bytes = await encoded([
      { kind: 0, id: 0, head: new Uint8Array(0), tensors: [Tensor.of([], { shape: [1, 1, 0] })] },
    ]);
    const overflowing = setUint64(setUint64(bytes, 32 + 16, 1n << 40n), 32 + 24, 1n << 40n);
    expect(decode(bytes, random).messages).toBe(1);
    expect(decode(overflowing, random).error).toMatchObject({ code: 'SHOAL_CORRUPT' });
  });

  it('refuses invalid strings and booleans', () => {
    // Before the end: strings (16 bytes), a boolean and an integer (8 bytes each).
    const body = small.length - 32;
    expect(small.subarray(body + 8, body + 11).toString()).toBe('abc');
    expect(decode(setUint32(small, body, 3), random).error).toMatchObject({
      message: expect.stringContaining('string 1 of a tensor has 1 bytes; 0 are left'),
    });
    expect(decode(setUint32(small, body + 4, 0), random).error).toMatchObject({
      message: expect.stringContaining('1 bytes follow the last string'),
    });
    expect(decode(setUint32(small, body + 16, 2), random).error).toMatchObject({ code: 'SHOAL_CORRUPT' });
  });

  it('survives flipped bits, random bytes and reordered parts, and leaves nothing behind', () => {
    const before = { handles: liveHandles().tensor, bytes: nativeBytes() };
    const round = (bytes: Buffer) => {
      const { error } = decode(bytes, random, { maxMessageBytes: 1 << 20 });
      if (error !== undefined && !isShoalError(error, 'SHOAL_CORRUPT')) throw error;
    };
    const work = (rounds: number) => {
      for (let i = 0; i < rounds; i++) {
        const source = i % 50 === 0 ? mixed : small;
        const flipped = Buffer.from(source);
        for (let flips = 1 + random(3); flips > 0; flips--) {
          const at = random(Math.min(flipped.length, small.length));
          flipped[at] = (flipped[at] as number) ^ (1 << random(8));
        }
        round(flipped);
        const noise = Buffer.from(Array.from({ length: random(100) }, () => random(256)));
        round(random(2) === 0 ? noise : Buffer.concat([small.subarray(0, 32), noise, small.subarray(32)]));
        const at = 8 * random(source.length / 8);
        round(Buffer.concat([source.subarray(at), source.subarray(0, at)]));
      }
    };
    work(500);
    const heap = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed;
    work(3000);
    expect(liveHandles().tensor).toBe(before.handles);
    expect(nativeBytes()).toBe(before.bytes);
    const grown = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed - heap;
    expect(grown).toBeLessThan(150e6);
  });
});

describe('a connection', () => {
  const closed = (bytes: Buffer, limits: Partial<WireLimits> = {}) =>
    pairs.pair().then(({ client, server }) => {
      const messages: WireMessage[] = [];
      const error = new Promise<ShoalError>((onClose) => {
        const onMessage = (message: WireMessage) => messages.push(message);
        new Connection(server, { label: '/job:worker/task:1', limits, onMessage, onClose });
      });
      client.on('error', () => {}).end(bytes);
      return error.then((why) => ({ why, messages: messages.length }));
    });

  it('ends with the name of the peer when a message is truncated at any byte', async () => {
    for (let length = 0; length < small.length; length += 1) {
      const { why, messages } = await closed(small.subarray(0, length));
      expect(messages).toBe(0);
      expect(why).toMatchObject({
        code: 'SHOAL_UNREACHABLE',
        message: expect.stringContaining('/job:worker/task:1'),
      });
      expect(why.message.includes('in the middle of a message')).toBe(length > 0);
    }
  });

  it('ends with the name of the peer and the reason when a message is invalid', async () => {
    const { why, messages } = await closed(Buffer.concat([small, setUint64(small, 24, 8n)]));
    expect(messages).toBe(1);
    expect(why).toMatchObject({
      code: 'SHOAL_CORRUPT',
      message: expect.stringMatching(/job:worker\/task:1 sent an invalid message: .*fill a body/),
    });
    const { why: tooLarge } = await closed(mixed, { maxMessageBytes: 1000 });
    expect(tooLarge).toMatchObject({ code: 'SHOAL_CORRUPT', message: expect.stringContaining('1000 bytes') });
  });

  it('uses no memory for tensors that are announced and not sent', async () => {
    // The descriptor of a tensor of 256 MB, and a few of its bytes.
    const size = 2 ** 28;
    const announced = Buffer.alloc(32 + 24 + 100);
    announced.writeUInt32LE(0x53 | (VERSIONS.stages.newest << 8), 0);
    announced.writeUInt32LE(1, 12);
    announced.writeUInt32LE(24, 16);
    announced.writeBigUInt64LE(BigInt(size), 24);
    announced.writeUInt32LE(1 | (1 << 8), 32);
    announced.writeBigUInt64LE(BigInt(size), 40);
    announced.writeBigUInt64LE(BigInt(size / 4), 48);
    const before = { rss: process.memoryUsage.rss(), handles: liveHandles().tensor };
    const open: { end: () => void; error: Promise<ShoalError> }[] = [];
    for (let i = 0; i < 6; i++) {
      const { client, server } = await pairs.pair();
      const error = new Promise<ShoalError>((onClose) => {
        new Connection(server, { label: 'x', onMessage: () => {}, onClose });
      });
      client.write(announced);
      open.push({ end: () => client.destroy(), error });
    }
    await expect.poll(() => liveHandles().tensor).toBe(before.handles + open.length);
    // A huge page for each, and what TensorFlow's allocator notes about its memory, which is less than a tenth of it.
    expect(process.memoryUsage.rss() - before.rss).toBeLessThan((open.length * size) / 4);
    for (const { end } of open) end();
    for (const { error } of open) expect((await error).code).toBe('SHOAL_UNREACHABLE');
    expect(liveHandles().tensor).toBe(before.handles);
  });
});
