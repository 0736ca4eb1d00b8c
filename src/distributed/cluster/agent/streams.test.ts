import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer, request } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Connection, type WireMessage } from '../../engine/wire/connection.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';
import { hooks, self, type TestAgent, testAgent } from '../testing/agents.js';
import { AgentClient } from './agent-client.js';
import { callerHeader } from './blobs/blob-access.js';
import type { StreamContext } from './streams.js';

const open: TestAgent[] = [];
const servers: Server[] = [];
const agent = async (options: Parameters<typeof testAgent>[0] = {}) => {
  const made = await testAgent(options);
  open.push(made);
  return made;
};
afterEach(async () => {
  for (const made of open.splice(0)) await made.close();
  for (const server of servers.splice(0)) server.close();
});

const worker = { task: taskId('worker', 1), incarnation: 3, nonce: 'w' };
const BOUNDS = { timeoutMs: 10_000 };
const token = tokenSecurity('a-token-of-many-characters');

let folder: string;
const tls: Record<'ps' | 'worker' | 'stranger', Security> = {} as never;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-streams-'));
  const [ours, theirs] = [join(folder, 'ours'), join(folder, 'theirs')];
  await initCerts({ dir: ours });
  await initCerts({ dir: theirs });
  await issueCert({ dir: ours, bearer: self.task });
  await issueCert({ dir: ours, bearer: worker.task });
  await issueCert({ dir: theirs, bearer: worker.task });
  tls.ps = loadTls(ours, self.task);
  tls.worker = loadTls(ours, worker.task);
  tls.stranger = loadTls(theirs, worker.task);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const securities = (): [string, Security, Security][] => [
  ['no credentials', { kind: 'none' }, { kind: 'none' }],
  ['a token', token, token],
  ['mutual TLS', tls.ps, tls.worker],
];

const echo = (socket: Duplex) => void socket.pipe(socket);

/** Sends a request for a stream; returns the status and body of the response. */
function raw(address: string, path: string, headers: Record<string, string>) {
  const [host, port] = address.split(':');
  return new Promise<{ status: number; body: string }>((done, fail) => {
    const call = request({ host, port, path, agent: false, headers: { connection: 'upgrade', ...headers } });
    call.on('response', async (answer) => {
      const body = Buffer.concat(await answer.toArray()).toString();
      done({ status: answer.statusCode!, body });
    });
    call.on('upgrade', (answer, socket) => {
      socket.destroy();
      done({ status: answer.statusCode!, body: '' });
    });
    call.on('error', fail).end();
  });
}

/** A server that is not an agent. */
async function other(server: Server): Promise<AgentClient> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new AgentClient({ address, security: { kind: 'none' }, task: self.task });
}

describe('a stream', () => {
  it('carries bytes in both directions with each kind of credentials', async () => {
    for (const [, server, client] of securities()) {
      const { agent: made, client: connect } = await agent({ security: server });
      const contexts: StreamContext[] = [];
      made.onUpgrade('echo', (socket, context) => {
        contexts.push(context);
        echo(socket);
      });
      const { socket, label } = await connect(client, { task: self.task }).upgrade('echo', worker, BOUNDS);
      socket.write('hello');
      expect(String((await once(socket, 'data'))[0])).toBe('hello');
      expect(label).toMatch(/^\/job:ps\/task:0 \(agent 127/);
      expect(contexts[0]?.from).toEqual(worker);
      expect(contexts[0]?.label).toMatch(/^\/job:worker\/task:1 \(from 127\.0\.0\.1:\d+\)$/);
      expect((socket as Socket).timeout ?? 0).toBe(0);
      socket.destroy();
    }
  });

  it('delivers bytes that either side sends at once', async () => {
    const { agent: made, client } = await agent();
    made.onUpgrade('eager', (socket) => void socket.write('first'));
    const { socket, head } = await client().upgrade('eager', worker, BOUNDS);
    const first = head.length > 0 ? head : (await once(socket, 'data'))[0];
    expect(String(first)).toBe('first');
    socket.destroy();
  });

  it('closes when the agent closes, which does not wait for it', async () => {
    for (const [, server, client] of securities()) {
      const made = await agent({ security: server });
      const accepted: Duplex[] = [];
      made.agent.onUpgrade('quiet', (socket) => void accepted.push(socket));
      const { socket } = await made.client(client).upgrade('quiet', worker, BOUNDS);
      const ended = once(socket.resume(), 'close');
      await made.agent.close({ graceMs: 60_000 });
      await ended;
      expect(accepted[0]?.destroyed).toBe(true);
    }
  });

  it('is refused beyond the limit, until another one has closed', async () => {
    const { agent: made, client } = await agent({ limits: { maxStreams: 2 } });
    made.onUpgrade('echo', echo);
    const streams = [
      await client().upgrade('echo', worker, BOUNDS),
      await client().upgrade('echo', worker, BOUNDS),
    ];
    await expect(client().upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining('2 streams'),
    });
    streams[0]?.socket.destroy();
    const again = async () => (await client().upgrade('echo', worker, BOUNDS)).socket.destroy().destroyed;
    await expect.poll(() => again().catch(() => false)).toBe(true);
    streams[1]?.socket.destroy();
  });

  it('without a handler is refused', async () => {
    const { agent: made, client } = await agent();
    const end = made.onUpgrade('gone', echo);
    expect(() => made.onUpgrade('gone', echo)).toThrow(/already has a handler/);
    end();
    await expect(client().upgrade('gone', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_NOT_FOUND',
      message: expect.stringContaining('no handler for stream gone'),
    });
  });

  it('of a handler that fails is closed', async () => {
    const notices: string[] = [];
    const { agent: made, client } = await agent({ onNotice: (line) => notices.push(line) });
    made.onUpgrade('bad', () => {
      throw new Error('no stream today');
    });
    const { socket } = await client().upgrade('bad', worker, BOUNDS);
    await once(socket.resume(), 'close');
    expect(notices.join()).toContain('no stream today');
  });

  it('of a handler whose promise rejects is closed', async () => {
    const notices: string[] = [];
    const { agent: made, client } = await agent({ onNotice: (line) => notices.push(line) });
    made.onUpgrade('bad', async () => {
      throw new Error('no stream today');
    });
    const { socket } = await client().upgrade('bad', worker, BOUNDS);
    await once(socket.resume(), 'close');
    expect(notices.join()).toContain('no stream today');
  });
});

describe('the caller of a stream', () => {
  it('needs the credentials, and gets the same response as for any request without them', async () => {
    const { agent: made, client, address } = await agent({ security: token });
    made.onUpgrade('echo', echo);
    const wrong = client(tokenSecurity('another-token-of-many-characters'));
    await expect(wrong.upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
    const upgrade = { upgrade: 'shoal-echo', ...callerHeader('shoal', worker) };
    const unauthorized = { status: 401, body: '{"error":"unauthorized"}' };
    expect(await raw(address, '/streams/echo', upgrade)).toEqual(unauthorized);
    expect(await raw(address, '/nothing', { upgrade: 'websocket' })).toEqual(unauthorized);
    expect(await raw(address, '/health', { connection: 'close' })).toEqual(unauthorized);
  });

  it('needs a certificate of the same authority that is valid for the task', async () => {
    const { agent: made, client } = await agent({ security: tls.ps });
    made.onUpgrade('echo', echo);
    const call = (security: Security, from = worker) => client(security).upgrade('echo', from, BOUNDS);
    await expect(call(tls.stranger)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
    await expect(call({ kind: 'none' })).rejects.toBeInstanceOf(ShoalError);
    await expect(call(tls.worker, { ...worker, task: taskId('worker', 2) })).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      message: expect.stringContaining('not valid for /job:worker/task:2'),
    });
    const expected = client(tls.worker, { task: taskId('ps', 7) });
    await expect(expected.upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  });

  it('must be a task of the cluster that was not replaced', async () => {
    const judgeCaller = ({ incarnation }: { incarnation: number }) =>
      incarnation < 3 ? 'it has been replaced' : undefined;
    const { agent: made, client, address } = await agent({ hooks: { ...hooks, judgeCaller } });
    made.onUpgrade('echo', echo);
    await expect(
      client(undefined, { cluster: 'other' }).upgrade('echo', worker, BOUNDS),
    ).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      message: expect.stringContaining('belongs to cluster'),
    });
    await expect(client().upgrade('echo', { ...worker, incarnation: 2 }, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      message: expect.stringContaining('been replaced'),
    });
    const anonymous = await raw(address, '/streams/echo', { upgrade: 'shoal-echo' });
    expect(anonymous).toMatchObject({ status: 403, body: expect.stringContaining('identifies no task') });
  });

  it('loses its stream when its successor opens one, whose bytes are read when the work of the first is over', async () => {
    const { agent: made, client } = await agent();
    const served: number[] = [];
    const ended: (() => void)[] = [];
    made.onUpgrade('work', (socket, { from }) => {
      served.push(from.incarnation);
      socket.on('data', () => socket.write('done'));
      return new Promise<void>((resolve) => ended.push(resolve));
    });
    const successor = { ...worker, incarnation: 4, nonce: 'successor' };
    const [old, next] = [
      (await client().upgrade('work', worker, BOUNDS)).socket,
      (await client().upgrade('work', successor, BOUNDS)).socket,
    ];
    await once(old.resume(), 'close');
    let answered = false;
    const answer = once(next, 'data').then(() => {
      answered = true;
    });
    next.write('work');
    await new Promise((tick) => setTimeout(tick, 100));
    expect([served, answered]).toEqual([[3], false]);
    ended[0]?.();
    await answer;
    expect(served).toEqual([3, 4]);
    for (const end of ended) end();
  });

  it('loses its stream when it is lost', async () => {
    const { agent: made, client } = await agent();
    made.onUpgrade('echo', echo);
    const { socket } = await client().upgrade('echo', worker, BOUNDS);
    made.endStreams({ ...worker, nonce: 'another' });
    expect(socket.destroyed).toBe(false);
    made.endStreams(worker);
    await once(socket.resume(), 'close');
  });

  it('must ask for a stream by its path and protocol', async () => {
    const { agent: made, address } = await agent();
    made.onUpgrade('echo', echo);
    const caller = callerHeader('shoal', worker);
    expect((await raw(address, '/streams/echo', { upgrade: 'websocket', ...caller })).status).toBe(400);
    expect((await raw(address, '/streams/ECHO', { upgrade: 'shoal-ECHO', ...caller })).status).toBe(400);
    expect((await raw(address, '/health', { upgrade: 'shoal-echo', ...caller })).status).toBe(404);
    expect((await raw(address, '/streams/echo', { upgrade: 'shoal-echo', ...caller })).status).toBe(101);
  });
});

describe('the peer of a stream', () => {
  it('must be the expected task', async () => {
    const { agent: made, client } = await agent();
    made.onUpgrade('echo', echo);
    const expected = client(undefined, { task: taskId('ps', 7) });
    await expect(expected.upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining('answers as /job:ps/task:0'),
    });
  });

  it('may not know streams', async () => {
    const plain = await other(createHttpServer((_, response) => response.end('hello')));
    await expect(plain.upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining('does not support the protocol shoal-echo'),
    });
    const older = await other(createHttpServer((_, response) => response.writeHead(404).end()));
    await expect(older.upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining('answered HTTP 404'),
    });
  });

  it('must answer in time, unless the call is aborted', async () => {
    const silent = await other(createServer((socket) => void socket.on('error', () => {}).resume()));
    await expect(silent.upgrade('echo', worker, { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'SHOAL_TIMEOUT',
      message: expect.stringContaining('/job:ps/task:0'),
    });
    const signal = AbortSignal.timeout(50);
    await expect(silent.upgrade('echo', worker, { ...BOUNDS, signal })).rejects.toMatchObject({
      code: 'SHOAL_ABORTED',
    });
  });

  it('may be gone', async () => {
    const made = await agent();
    await made.agent.close({ graceMs: 0 });
    await expect(made.client().upgrade('echo', worker, BOUNDS)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
    });
  });
});

describe('a connection on a stream', () => {
  it('carries tensors with each kind of credentials, and frees them when the agent closes', async () => {
    for (const [, server, client] of securities()) {
      const before = liveHandles().tensor;
      const made = await agent({ security: server });
      made.agent.onUpgrade('tensors', (socket, { label, head }) => {
        const onMessage = (message: WireMessage) => {
          answering.send(message);
          for (const tensor of message.tensors) tensor.dispose();
        };
        const answering = new Connection(socket, { label, onMessage, onClose: () => {} }, head);
      });
      const { socket, label, head } = await made.client(client).upgrade('tensors', worker, BOUNDS);
      const limits = { maxQueuedBytes: Number.POSITIVE_INFINITY };
      let answered = (_: WireMessage) => {};
      let connection!: Connection;
      const closed = new Promise<ShoalError>((onClose) => {
        const onMessage = (message: WireMessage) => answered(message);
        connection = new Connection(socket, { label, limits, onMessage, onClose }, head);
      });
      const send = (tensors: Tensor[]) => {
        const answer = new Promise<WireMessage>((done) => {
          answered = done;
        });
        connection.send({ kind: 1, id: 2, head: new Uint8Array(0), tensors });
        for (const tensor of tensors) tensor.dispose();
        return answer;
      };
      const large = Tensor.allocate([3_000_001], 'int32');
      large.setBytes(new Uint8Array(new Int32Array([1, 2, 3]).buffer), 12_000_004 - 12);
      const { tensors } = await send([Tensor.of('x'), large, Tensor.of(4)]);
      expect([...(tensors[1] as Tensor<'int32'>).data.subarray(-3)]).toEqual([1, 2, 3]);
      expect(tensors[2]?.item()).toBe(4);
      for (const tensor of tensors) tensor.dispose();
      for (let i = 0; i < 8; i++) void send([Tensor.allocate([3_000_001], 'int32')]);
      answered = (message) => {
        for (const tensor of message.tensors) tensor.dispose();
      };
      await once(socket, 'data');
      await made.agent.close({ graceMs: 0 });
      expect(await closed).toMatchObject({
        code: 'SHOAL_UNREACHABLE',
        message: expect.stringContaining(label),
      });
      await expect.poll(() => liveHandles().tensor).toBe(before);
    }
  });
});
