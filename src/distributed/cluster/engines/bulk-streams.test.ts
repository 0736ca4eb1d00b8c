/** The streams of bulk channels: which are accepted, and for whom. */
import { readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { closeDescriptor } from '../../../tensorflow/native/threads/descriptors.js';
import { SocketPairs } from '../../engine/testing/socket-pair.js';
import type { BulkChannel } from '../../engine/wire/bulk-channel.js';
import type { StreamContext, StreamHandler } from '../agent/streams.js';
import { Traffic } from '../agent/traffic.js';
import { taskId } from '../spec/task-id.js';
import { BulkStreams, isUnencrypted } from './bulk-streams.js';

const PS = taskId('ps', 0);
const WORKER = { task: taskId('worker', 0), incarnation: 1, nonce: 'a' };

let pairs: SocketPairs;
beforeAll(async () => {
  pairs = await SocketPairs.listen();
});
afterAll(() => pairs.close());

/** A task with the sockets of its streams. */
class FakeTask {
  readonly traffic = new Traffic();
  handler!: StreamHandler;
  onStream = (_: string, handler: StreamHandler) => {
    this.handler = handler;
    return () => {};
  };
  next: Socket | undefined;
  openStream = async () => ({
    socket: this.next as Socket,
    head: Buffer.alloc(0),
    label: 'ps',
    versions: {} as StreamContext['versions'],
  });
}

function service() {
  const task = new FakeTask();
  const streams = new BulkStreams(task);
  const attached: number[] = [];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const channel = { bytesRead: 3, bytesWritten: 4, ended } as BulkChannel;
  const attach = (descriptor: number) => {
    attached.push(descriptor);
    return channel;
  };
  const offer = streams.listenerFor(WORKER).offer(attach, () => {});
  const serve = (socket: Socket, { from = WORKER, head = Buffer.alloc(0) } = {}) =>
    task.handler(socket, {
      from,
      head,
      label: 'w',
      versions: {} as StreamContext['versions'],
    }) as Promise<void>;
  return { task, attached, offer, serve, end };
}

it('a stream that begins with the token is attached, and lasts as long as its channel', async () => {
  for (const inHead of [0, 10, 32]) {
    const { task, attached, offer, serve, end } = service();
    const { client, server } = await pairs.pair();
    const token = Buffer.from(offer.token);
    const serving = serve(server, { head: token.subarray(0, inHead) });
    if (inHead < 32) client.write(token.subarray(inHead));
    await expect.poll(() => attached.length, { timeout: 20_000 }).toBe(1);
    expect(server.destroyed).toBe(true);
    expect([task.traffic.received, task.traffic.sent]).toEqual([3, 4]);
    let isOver = false;
    void serving.then(() => {
      isOver = true;
    });
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    // The connection is open although Node has closed its socket.
    expect(client.readyState).toBe('open');
    end();
    await serving;
    closeDescriptor(attached[0] as number);
  }
});

it.each<[string, (token: Buffer) => Buffer, object]>([
  ['an unknown token', () => Buffer.alloc(32), {}],
  ['the token of another process', (token) => token, { from: { ...WORKER, nonce: 'b' } }],
  ['bytes after the token', (token) => Buffer.concat([token, Buffer.of(1)]), {}],
])('a stream with %s is refused', async (_, bytesOf, context) => {
  const { attached, offer, serve } = service();
  const { client, server } = await pairs.pair();
  client.write(bytesOf(Buffer.from(offer.token)));
  await expect(serve(server, context)).rejects.toThrow(/token/);
  expect(attached).toEqual([]);
});

it('a token is good for one stream, and for none after its connection has ended', async () => {
  const { attached, offer, serve, end } = service();
  end();
  const present = async () => {
    const { client, server } = await pairs.pair();
    client.write(offer.token);
    await serve(server);
  };
  await present();
  await expect(present()).rejects.toThrow(/token is unknown/);
  const other = service();
  other.offer.withdraw();
  const { client, server } = await pairs.pair();
  client.write(other.offer.token);
  await expect(other.serve(server)).rejects.toThrow(/token is unknown/);
  expect(attached.length).toBe(1);
  closeDescriptor(attached[0] as number);
});

it('a caller sends the token, and has a descriptor that Node does not close', async () => {
  const task = new FakeTask();
  const streams = new BulkStreams(task);
  const { client, server } = await pairs.pair();
  task.next = client;
  const received = new Promise<Buffer>((resolve) => server.once('data', resolve));
  const descriptor = await streams.open(PS, Buffer.alloc(32, 7));
  expect(await received).toEqual(Buffer.alloc(32, 7));
  expect(client.destroyed).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(server.readyState).toBe('open');
  const closed = new Promise((resolve) => server.resume().once('end', resolve));
  closeDescriptor(descriptor);
  await closed;
});

it('an encrypted connection has no bulk channel', async () => {
  const { client } = await pairs.pair();
  expect(isUnencrypted(client)).toBe(true);
  const encrypted = new TLSSocket(client);
  expect(isUnencrypted(encrypted)).toBe(false);
  const task = new FakeTask();
  task.next = encrypted as unknown as Socket;
  const count = () => (process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0);
  const open = count();
  await expect(new BulkStreams(task).open(PS, Buffer.alloc(32))).rejects.toThrow(/ps/);
  expect(count()).toBeLessThanOrEqual(open);
  encrypted.destroy();
});
