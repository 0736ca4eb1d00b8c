import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, constants, type OutgoingHttpHeaders } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Health } from '../../../base/proto/generated/health_v1_pb.js';
import type { RequestLimits } from '../requests.js';
import { frameOf } from './frames.js';
import { healthService } from './health.js';
import type { RpcMethod } from './methods.js';
import { reflectionService } from './reflection.js';
import { type GrpcLimits, GrpcServer } from './server.js';

const eventually = (check: () => void): Promise<void> => vi.waitFor(check, 10_000);

const LIMITS: Partial<GrpcLimits> = { maxMessageBytes: 10_000, maxTotalBytes: 25_000, maxSilenceMs: 300 };
const closers: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A server with a method that returns its message, one that waits until it is cancelled, and the health service. */
async function start(more: Partial<Parameters<typeof GrpcServer.start>[0]> = {}) {
  const waiting: RequestLimits[] = [];
  const methods = new Map<string, RpcMethod>([
    ['/test/Echo', { kind: 'unary', answer: (message) => [message] }],
    [
      '/test/Wait',
      {
        kind: 'unary',
        answer: async (_, call) => {
          waiting.push(call);
          await new Promise((resolve) => call.signal?.addEventListener('abort', resolve));
          throw call.signal?.reason;
        },
      },
    ],
    ...healthService({ services: [], isReady: () => true, watchMs: 10 }),
    ...reflectionService([Health]),
  ]);
  const listen = { host: '127.0.0.1', port: 0 };
  const server = await GrpcServer.start({ methods, listen, limits: LIMITS, ...more });
  closers.push(() => server.close());
  const { port } = server.address;
  const session = connect(`http://127.0.0.1:${port}`);
  closers.push(() => session.destroy());
  return { server, session, port, waiting };
}

interface Reply {
  readonly status: number | undefined;
  readonly message: string;
  readonly body: Buffer;
}

/** Sends bytes as the body of a call. Without `end` the client goes on sending. */
function call(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array,
  { headers = {} as OutgoingHttpHeaders, end = true } = {},
) {
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
  const reply = new Promise<Reply>((resolve) => {
    let fields: Record<string, unknown> = {};
    const chunks: Buffer[] = [];
    stream.on('response', (found) => {
      fields = { ...fields, ...found };
    });
    stream.on('trailers', (found) => {
      fields = { ...fields, ...found };
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', () => {});
    stream.on('close', () => {
      const status = fields['grpc-status'];
      resolve({
        status: status === undefined ? undefined : Number(status),
        message: decodeURIComponent(String(fields['grpc-message'] ?? '')),
        body: Buffer.concat(chunks),
      });
    });
  });
  if (end) stream.end(body);
  else stream.write(body);
  return { stream, reply };
}

const echo = (session: ClientHttp2Session, body: Uint8Array, options = {}) =>
  call(session, '/test/Echo', body, options).reply;

const OK = 0;
const CANCELLED = 1;
const INVALID_ARGUMENT = 3;
const DEADLINE_EXCEEDED = 4;
const RESOURCE_EXHAUSTED = 8;
const UNIMPLEMENTED = 12;
const INTERNAL = 13;
const UNAVAILABLE = 14;

describe('a message', () => {
  test('is echoed, whole or compressed, however its bytes are divided', async () => {
    const { session } = await start();
    const message = randomBytes(5000);
    const frame = frameOf([message.subarray(0, 100), message.subarray(100)]);
    expect((await echo(session, frame)).body).toEqual(frame);
    const { stream, reply } = call(session, '/test/Echo', frame.subarray(0, 3), { end: false });
    for (let at = 3; at < frame.length; at += 700) stream.write(frame.subarray(at, at + 700));
    stream.end();
    expect((await reply).body).toEqual(frame);
    const compressed = frameOf([gzipSync(message)]);
    compressed[0] = 1;
    const unpacked = await echo(session, compressed, { headers: { 'grpc-encoding': 'gzip' } });
    expect([unpacked.status, unpacked.body.equals(frame)]).toEqual([OK, true]);
  });

  test('that exceeds the limit is refused by its head, packed or not', async () => {
    const { session, server } = await start();
    const head = Buffer.from([0, 0x40, 0, 0, 0]);
    const large = await call(session, '/test/Echo', head, { end: false }).reply;
    expect(large).toMatchObject({
      status: RESOURCE_EXHAUSTED,
      message: expect.stringMatching(/larger than max/),
    });
    const bomb = frameOf([gzipSync(Buffer.alloc(1 << 20))]);
    bomb[0] = 1;
    const expanded = await echo(session, bomb, { headers: { 'grpc-encoding': 'gzip' } });
    expect(expanded.status).toBe(RESOURCE_EXHAUSTED);
    expect(server.bytesHeld).toBe(0);
  });

  test('must come alone, complete and in a known encoding', async () => {
    const { session } = await start();
    const frame = frameOf([Buffer.from('abc')]);
    expect((await echo(session, Buffer.concat([frame, frame]))).status).toBe(UNIMPLEMENTED);
    expect((await echo(session, Buffer.alloc(0))).status).toBe(UNIMPLEMENTED);
    expect((await echo(session, frame.subarray(0, 6))).status).toBe(INTERNAL);
    const marked = Buffer.from(frame);
    marked[0] = 1;
    expect((await echo(session, marked)).status).toBe(INTERNAL);
    const other = await echo(session, frame, { headers: { 'grpc-encoding': 'snappy' } });
    expect(other.status).toBe(UNIMPLEMENTED);
    const late = await echo(session, frame, { headers: { 'grpc-timeout': 'soon' } });
    expect(late.status).toBe(INVALID_ARGUMENT);
  });

  test('that stops arriving is given up, and its bytes with it', async () => {
    const { session, server } = await start();
    const half = Buffer.concat([Buffer.from([0, 0, 0, 0x20, 0]), Buffer.alloc(5000)]);
    const { reply } = call(session, '/test/Echo', half, { end: false });
    await eventually(() => expect(server.bytesHeld).toBe(5000));
    expect((await reply).status).toBe(DEADLINE_EXCEEDED);
    expect(server.bytesHeld).toBe(0);
  });

  test('is refused while those of other calls fill the memory', async () => {
    const { session, server } = await start({ limits: { ...LIMITS, maxSilenceMs: 60_000 } });
    const half = Buffer.concat([Buffer.from([0, 0, 0, 0x27, 0]), Buffer.alloc(9000)]);
    const slow = [0, 1].map(() => call(session, '/test/Echo', half, { end: false }));
    await eventually(() => expect(server.bytesHeld).toBe(18_000));
    expect((await echo(session, frameOf([Buffer.alloc(9000)]))).status).toBe(RESOURCE_EXHAUSTED);
    for (const { stream } of slow) stream.close(constants.NGHTTP2_CANCEL);
    await eventually(() => expect(server.bytesHeld).toBe(0));
    expect((await echo(session, frameOf([Buffer.alloc(9000)]))).status).toBe(OK);
  });
});

test('the bytes of requests that wait for their answer count, compressed ones as what they expand to', async () => {
  const { session, server, waiting } = await start();
  const calls = [0, 1].map(() => call(session, '/test/Wait', frameOf([Buffer.alloc(9000)])));
  await eventually(() => expect(waiting).toHaveLength(2));
  expect(server.bytesHeld).toBe(18_000);
  const compressed = frameOf([gzipSync(Buffer.alloc(9000))]);
  compressed[0] = 1;
  const headers = { 'grpc-encoding': 'gzip' };
  expect(compressed.length).toBeLessThan(100);
  expect((await echo(session, compressed, { headers })).status).toBe(RESOURCE_EXHAUSTED);
  for (const { stream } of calls) stream.close(constants.NGHTTP2_CANCEL);
  await eventually(() => expect(server.bytesHeld).toBe(0));
  expect((await echo(session, compressed, { headers })).status).toBe(OK);
});

test('an answer that its client does not read is given up', async () => {
  const { port } = await start({ limits: { ...LIMITS, maxMessageBytes: 1 << 20, maxTotalBytes: 1 << 21 } });
  // A client that gives the server no window for data.
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
  closers.push(() => session.destroy());
  const { stream, reply } = call(session, '/test/Echo', frameOf([Buffer.alloc(1 << 19)]));
  expect((await reply).body).toHaveLength(0);
  expect(stream.rstCode).toBe(constants.NGHTTP2_CANCEL);
});

test('a cancelled call, one past its deadline and one of a lost connection abort their handlers', async () => {
  const { session, port, waiting } = await start();
  const frame = frameOf([]);
  const cancelled = call(session, '/test/Wait', frame);
  await eventually(() => expect(waiting).toHaveLength(1));
  cancelled.stream.close(constants.NGHTTP2_CANCEL);
  await eventually(() => expect(waiting[0]?.signal?.aborted).toBe(true));
  const late = call(session, '/test/Wait', frame, { headers: { 'grpc-timeout': '50m' } });
  expect((await late.reply).status).toBe(DEADLINE_EXCEEDED);
  expect(waiting[1]?.signal?.aborted).toBe(true);
  const other = connect(`http://127.0.0.1:${port}`);
  void call(other, '/test/Wait', frame).reply;
  await eventually(() => expect(waiting).toHaveLength(3));
  other.destroy();
  await eventually(() => expect(waiting[2]?.signal?.aborted).toBe(true));
});

test('closing ends watches, waits for running calls, and cancels those that outlast the grace', async () => {
  const { server, session, waiting } = await start();
  const watch = call(session, '/grpc.health.v1.Health/Watch', frameOf([]));
  await once(watch.stream, 'data');
  const running = call(session, '/test/Wait', frameOf([]), { headers: { 'grpc-timeout': '200m' } });
  const endless = call(session, '/test/Wait', frameOf([]));
  await eventually(() => expect(waiting).toHaveLength(2));
  const closed = server.close(500);
  expect((await watch.reply).status).toBe(UNAVAILABLE);
  expect((await running.reply).status).toBe(DEADLINE_EXCEEDED);
  await closed;
  expect(waiting[1]?.signal?.aborted).toBe(true);
  expect([undefined, CANCELLED]).toContain((await endless.reply).status);
});

test('bytes that are no gRPC, no HTTP/2 or no message harm nobody else', async () => {
  const { session, server, port } = await start();
  for (let i = 0; i < 300; i++) {
    const { status } = await echo(session, randomBytes(i));
    expect(status).toBeDefined();
  }
  for (let i = 0; i < 20; i++) {
    const socket = connectSocket(port, '127.0.0.1').resume();
    socket.on('error', () => {});
    socket.write(i % 2 ? randomBytes(500) : 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(socket, 'close');
  }
  await eventually(() => expect(server.connections).toBe(1));
  expect(server.bytesHeld).toBe(0);
  expect((await echo(session, frameOf([Buffer.from('fine')]))).status).toBe(OK);
});

test('a client that never speaks is disconnected', async () => {
  const { port } = await start({ limits: { ...LIMITS, keepaliveMs: 100, pingAnswerMs: 100 } });
  const socket = connectSocket(port, '127.0.0.1').resume();
  await once(socket, 'close');
});

test('a connection is pinged as long as its client answers', async () => {
  const { session, server } = await start({ limits: { ...LIMITS, keepaliveMs: 50, pingAnswerMs: 5000 } });
  let pings = 0;
  session.on('ping', () => {
    pings += 1;
  });
  await eventually(() => expect(pings).toBeGreaterThan(3));
  expect(server.connections).toBe(1);
});

test('a client of reflection that does not read is not read from', async () => {
  const limits = { ...LIMITS, maxTotalBytes: 64 << 20, maxMessageBytes: 1 << 20 };
  const { session } = await start({ limits });
  const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
  const request = Buffer.concat([Buffer.from([0x22, 21]), Buffer.from('grpc.health.v1.Health')]);
  const { stream, reply } = call(session, path, frameOf([request]), { end: false });
  stream.pause();
  const many = Buffer.concat(new Array<Buffer>(1 << 15).fill(frameOf([request])));
  let sent = 0;
  let isBlocked = false;
  while (!isBlocked && sent < 40 << 20) {
    sent += many.length;
    if (stream.write(many)) continue;
    const drained = once(stream, 'drain').then(() => true);
    isBlocked = !(await Promise.race([drained, new Promise((late) => setTimeout(late, 2000, false))]));
  }
  expect(isBlocked).toBe(true);
  stream.close(constants.NGHTTP2_CANCEL);
  await reply;
  const large = call(session, path, frameOf([Buffer.alloc(1 << 16)]));
  expect((await large.reply).status).toBe(RESOURCE_EXHAUSTED);
});
