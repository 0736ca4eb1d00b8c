import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { described } from '../../../../test/described.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';
import { hooks, message, self, type TestAgent, testAgent } from '../testing/agents.js';
import { startAgent } from './agent.js';
import { Traffic } from './traffic.js';

const open: TestAgent[] = [];
const agent = async (options: Parameters<typeof testAgent>[0] = {}) => {
  const made = await testAgent(options);
  open.push(made);
  return made;
};
afterEach(async () => {
  for (const made of open.splice(0)) await made.close();
});

interface Raw {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

function raw(address: string, path: string, options: object = {}, body?: string): Promise<Raw> {
  const [host, port] = address.split(':');
  return new Promise((done, fail) => {
    const call = request({ host, port, path, agent: false, ...options }, async (answer) => {
      const text = Buffer.concat(await answer.toArray()).toString();
      done({ status: answer.statusCode!, headers: answer.headers, body: text });
    });
    call.on('error', fail);
    call.end(body);
  });
}

describe('an agent', () => {
  it('serves health, membership and metrics', async () => {
    const client = (await agent()).client();
    await expect(client.health()).resolves.toMatchObject({ task: self.task });
    await expect(client.status()).resolves.toMatchObject({ epoch: 1 });
    await expect(client.metrics()).resolves.toContain('up 1');
    await expect(client.exchange('heartbeat', message)).resolves.toEqual(message);
  });

  it('refuses an invalid message, naming the field', async () => {
    const client = (await agent()).client();
    const broken = { ...message, from: { ...message.from, incarnation: -1 } };
    await expect(client.exchange('announce', broken)).rejects.toMatchObject({
      code: 'SHOAL_INVALID_ARGUMENT',
      message: expect.stringContaining('message.message.from.incarnation'),
    });
  });

  it('refuses a message for another cluster', async () => {
    const client = (await agent({ cluster: 'other' })).client();
    await expect(client.exchange('announce', message)).rejects.toThrow(
      /belongs to cluster other, not to shoal/,
    );
  });

  it('refuses a body that is too large without reading it', async () => {
    const { client } = await agent({ limits: { maxMessageBytes: 100 } });
    await expect(client().exchange('announce', message)).rejects.toThrow(/larger than 100 bytes/);
  });

  it('times out on a body that does not arrive', async () => {
    const { address } = await agent({ limits: { bodyTimeoutMs: 50 } });
    const call = raw(
      address,
      '/membership/announce',
      { method: 'POST', headers: { 'content-length': 10 } },
      undefined,
    );
    await expect(call).rejects.toThrow(/hang up|RESET/);
  });

  it('rejects calls beyond the limit', async () => {
    const { agent: server, client } = await agent({ limits: { maxRequests: 2 } });
    let go = () => {};
    const gate = new Promise<void>((done) => {
      go = done;
    });
    server.onOrder('wait', () => gate);
    const waiting = [client().order('wait', self, null), client().order('wait', self, null)];
    await expect.poll(() => raw(client().address, '/health').then(({ status }) => status)).toBe(503);
    go();
    await Promise.all(waiting);
    await expect(client().health()).resolves.toMatchObject({ task: self.task });
  });

  it('refuses to listen beyond loopback without credentials', async () => {
    const listen = { host: '0.0.0.0', port: 0 };
    await expect(
      startAgent({ cluster: 'shoal', listen, hooks, security: { kind: 'none' } }),
    ).rejects.toMatchObject({
      code: 'SHOAL_CONFIG',
      message: expect.stringContaining('only on loopback'),
    });
  });

  it('rejects requests of web pages without credentials', async () => {
    const { address } = await agent();
    expect((await raw(address, '/health', { headers: { origin: 'http://evil.example' } })).status).toBe(401);
    expect((await raw(address, '/health', { headers: { host: 'evil.example' } })).status).toBe(401);
    expect((await raw(address, '/health')).status).toBe(200);
  });

  it('names the address that it cannot listen on', async () => {
    const { agent: taken } = await agent();
    const call = startAgent({
      cluster: 'shoal',
      listen: taken.address,
      task: taskId('ps', 0),
      hooks,
      security: { kind: 'none' },
    });
    await expect(call).rejects.toMatchObject({
      code: 'SHOAL_ADDRESS_IN_USE',
      task: '/job:ps/task:0',
      message: expect.stringMatching(
        /agent of \/job:ps\/task:0 cannot listen on 127.0.0.1:\d+: another process uses this port$/,
      ),
    });
  });
});

describe('requests', () => {
  it('of any task reach their handler until it is removed', async () => {
    const { agent: server, client } = await agent({ hooks: { ...hooks, judge: () => 'not the chief' } });
    const end = server.onRequest('echo', (payload, { from }) => ({ payload, by: from.task }));
    await expect(client().request('echo', self, 1)).resolves.toEqual({ payload: 1, by: self.task });
    end();
    await expect(client().request('echo', self, 1)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });

  it('of an incarnation that was replaced are refused', async () => {
    const judgeCaller = () => 'it has been replaced';
    const { agent: server, client } = await agent({ hooks: { ...hooks, judgeCaller } });
    server.onRequest('x', () => 1);
    await expect(client().request('x', self, null)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  });

  it('are bounded in size', async () => {
    const { agent: server, client } = await agent({ limits: { maxAskBytes: 100 } });
    server.onRequest('x', () => 1);
    await expect(client().request('x', self, 'x'.repeat(200))).rejects.toThrow(/larger than 100 bytes/);
  });
});

describe('orders', () => {
  it('reach their handler and return its result', async () => {
    const { agent: server, client } = await agent();
    server.onOrder('add', (payload, { from }) => ({
      sum: (payload as number[]).reduce((a, b) => a + b),
      by: from.task,
    }));
    await expect(client().order('add', self, [1, 2])).resolves.toEqual({ sum: 3, by: self.task });
  });

  it('are refused when the judge hook refuses', async () => {
    const { agent: server, client } = await agent({
      hooks: { ...hooks, judge: () => 'it has been replaced' },
    });
    let ran = false;
    server.onOrder('x', () => {
      ran = true;
    });
    await expect(client().order('x', self, null)).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      message: expect.stringContaining('it has been replaced'),
    });
    expect(ran).toBe(false);
  });

  it('return the error of the handler with its code, naming the peer', async () => {
    const { agent: server, client, address } = await agent();
    server.onOrder('fail', () => {
      throw new ShoalError('SHOAL_NO_SPACE', 'full', { hint: 'sweep', op: 'Save' });
    });
    await expect(client(undefined, { task: self.task }).order('fail', self, null)).rejects.toMatchObject({
      code: 'SHOAL_NO_SPACE',
      message: `${self.task} (agent ${address}): full`,
      hint: 'sweep',
      op: 'Save',
    });
  });

  it('without a handler are not found', async () => {
    const { client } = await agent();
    await expect(client().order('nothing', self, null)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });

  it('end at their deadline, which aborts the handler', async () => {
    const { agent: server, client } = await agent();
    const ended = new Promise<string>((done) => {
      server.onOrder('hang', (_, { signal }) => {
        signal.addEventListener('abort', () => done(String((signal.reason as Error).message)));
        return new Promise(() => {});
      });
    });
    await expect(client().order('hang', self, null, { timeoutMs: 50 })).rejects.toMatchObject({
      code: 'SHOAL_TIMEOUT',
    });
    await expect(ended).resolves.toBe('/job:ps/task:0 closed the connection');
  });

  it('in progress are aborted when the agent closes', async () => {
    const { agent: server, client } = await agent();
    let begun = () => {};
    const running = new Promise<void>((done) => {
      begun = done;
    });
    server.onOrder('long', (_, { signal }) => {
      begun();
      return new Promise((done) => signal.addEventListener('abort', () => done('stopped early')));
    });
    const result = client().order('long', self, null);
    await running;
    await server.close();
    await expect(result).resolves.toBe('stopped early');
  });
});

it('closes in time if the clock of the machine goes back meanwhile', async () => {
  const { agent: server, client } = await agent();
  let begun = () => {};
  const running = new Promise<void>((done) => {
    begun = done;
  });
  server.onOrder('hang', () => {
    begun();
    return new Promise(() => {});
  });
  const result = client()
    .order('hang', self, null)
    .catch((error: unknown) => error);
  await running;
  const closed = server.close({ graceMs: 50 });
  const clock = vi.spyOn(Date, 'now').mockReturnValue(0);
  try {
    await closed;
  } finally {
    clock.mockRestore();
  }
  expect(await result).toBeInstanceOf(ShoalError);
}, 20_000);

describe('a client', () => {
  it('names the peer when no process listens', async () => {
    const { client, agent: server } = await agent();
    const peer = client(undefined, { task: self.task });
    await server.close();
    await expect(peer.exchange('probe', message)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      failure: 'refused',
      message: expect.stringMatching(/^\/job:ps\/task:0 \(agent 127.0.0.1:\d+\) refuses connections/),
    });
  });

  it('stops when its signal fires', async () => {
    const { agent: server, client } = await agent();
    server.onOrder('hang', () => new Promise(() => {}));
    const controller = new AbortController();
    const call = client().order('hang', self, null, { signal: controller.signal });
    setTimeout(() => controller.abort('enough'), 20);
    await expect(call).rejects.toMatchObject({ code: 'SHOAL_ABORTED', cause: 'enough' });
  });
});

const PATHS = [
  '/',
  '/health',
  '/blobs/x',
  '/blobs',
  '/nowhere',
  '/orders/x',
  '/membership',
  '/blobs/../x',
  '/%',
];

describe('a cluster token', () => {
  const security = tokenSecurity('0123456789abcdef');

  it('gives access', async () => {
    const { client } = await agent({ security });
    await expect(client().health()).resolves.toMatchObject({ task: self.task });
  });

  it.each([
    ['no token', {}],
    ['a wrong token', { authorization: 'Bearer 0123456789abcdeX' }],
    ['a shorter token', { authorization: 'Bearer 0' }],
    ['another scheme', { authorization: 'Basic 0123456789abcdef' }],
  ])('keeps out %s with the same answer on every path', async (_, headers) => {
    const { address } = await agent({ security });
    const answers: string[] = [];
    for (const path of PATHS) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
        const { date: _date, ...rest } = (await raw(address, path, { method, headers })).headers;
        const { status, body } = await raw(address, path, { method, headers });
        answers.push(JSON.stringify({ status, body, rest }));
      }
    }
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('"status":401');
    expect(answers[0]).not.toMatch(/shoal|version|server|powered/i);
  });

  it('is required before a request body is accepted', async () => {
    const { address } = await agent({ security });
    const [host, port] = address.split(':');
    const socket = connect(Number(port), host);
    socket.write(
      'PUT /uploads/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n',
    );
    const text = Buffer.concat(await socket.toArray()).toString();
    expect(text).toMatch(/^HTTP\/1.1 401/);
  });

  it('that is wrong gives the client a clear error', async () => {
    const { client } = await agent({ security });
    await expect(client(tokenSecurity('fedcba9876543210')).health()).rejects.toMatchObject({
      code: 'SHOAL_FORBIDDEN',
      hint: expect.stringContaining('same cluster token'),
    });
  });

  it('must be long enough', () => {
    expect(() => tokenSecurity('short')).toThrow(/at least 16/);
  });
});

describe('mutual TLS', () => {
  let folder: string;
  let ps: Security;
  let worker: Security;
  let operator: Security;
  let foreign: Security;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-certs-'));
    const [ours, theirs] = [join(folder, 'ours'), join(folder, 'theirs')];
    await initCerts({ dir: ours });
    await issueCert({ dir: ours, bearer: '/job:ps/task:0' });
    await issueCert({ dir: ours, bearer: 'worker' });
    await issueCert({ dir: ours, bearer: 'operator' });
    await initCerts({ dir: theirs });
    await issueCert({ dir: theirs, bearer: '/job:ps/task:0' });
    ps = loadTls(ours, self.task);
    worker = loadTls(ours, taskId('worker', 3));
    operator = loadTls(ours, 'operator');
    foreign = loadTls(theirs, self.task);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('connects the tasks of one authority', async () => {
    const { client } = await agent({ security: ps });
    await expect(client(worker, { task: self.task }).health()).resolves.toMatchObject({ task: self.task });
    await expect(client(operator).metrics()).resolves.toContain('up');
  });

  it('counts the bytes of open and closed connections on both sides', async () => {
    const [here, there] = [new Traffic(), new Traffic()];
    const { client } = await agent({ security: ps, traffic: here });
    const first = client(ps, { task: self.task, traffic: there });
    await first.exchange('heartbeat', message);
    const open = here.received;
    expect(open).toBeGreaterThan(JSON.stringify(message).length);
    expect(there.sent).toBeGreaterThanOrEqual(open);
    first.close();
    await client(worker, { task: self.task, traffic: there }).health();
    expect(here.received).toBeGreaterThan(open);
    expect(here.sent).toBeGreaterThan(0);
    expect(there.received).toBeGreaterThan(0);
  });

  it('ends the handshake of a client without a certificate', async () => {
    const { client } = await agent({ security: ps });
    const ca = (ps as Extract<Security, { kind: 'tls' }>).ca;
    const bare = client({ kind: 'tls', ca, cert: '', key: '' });
    await expect(bare.health()).rejects.toMatchObject({
      code: expect.stringMatching(/FORBIDDEN|UNREACHABLE/),
    });
  });

  it('ends the handshake of a foreign authority, on both sides', async () => {
    const { client } = await agent({ security: ps });
    await expect(client(foreign).health()).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
    const ca = (ps as Extract<Security, { kind: 'tls' }>).ca;
    const trusting = client({ ...(foreign as Extract<Security, { kind: 'tls' }>), ca });
    await expect(trusting.health()).rejects.toMatchObject({
      code: expect.stringMatching(/FORBIDDEN|UNREACHABLE/),
    });
  });

  it('does not answer plain HTTP', async () => {
    const { address } = await agent({ security: ps });
    await expect(raw(address, '/health')).rejects.toThrow(/hang up|RESET|Parse/);
  });

  it('detects that another task answers than the one that was called', async () => {
    const { client } = await agent({ security: worker });
    await expect(client(ps, { task: self.task }).health()).rejects.toThrow(
      /is for \/job:worker\/task:\*, not for \/job:ps\/task:0/,
    );
  });

  it('accepts a certificate for its own tasks only', async () => {
    const { client, agent: server } = await agent({ security: ps });
    server.onOrder('x', () => 1);
    await expect(client(worker).exchange('announce', message)).rejects.toThrow(
      /is not valid for \/job:ps\/task:0/,
    );
    await expect(client(operator).order('x', self, null)).rejects.toThrow(/is not valid for/);
    await expect(client(worker).order('x', { ...self, task: taskId('worker', 9) }, null)).resolves.toBe(1);
  });

  it('writes files that only their owner can read and never overwrites one', async () => {
    const dir = join(folder, 'ours');
    for (const file of ['ca.crt', 'ca.key', 'ps-0.crt', 'ps-0.key']) {
      expect(statSync(join(dir, file)).mode & 0o777).toBe(0o600);
    }
    await expect(initCerts({ dir })).rejects.toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/does not overwrite/) }),
    );
    await expect(issueCert({ dir, bearer: '/job:ps/task:0' })).rejects.toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/does not overwrite/) }),
    );
  });

  it('refuses a certificate that has expired', async () => {
    const dir = join(folder, 'old');
    const now = Date.now() - 10 * 86_400_000;
    await initCerts({ dir });
    await issueCert({ dir, bearer: 'task', days: 1, now });
    const { client } = await agent({ security: loadTls(dir, self.task) });
    await expect(client().health()).rejects.toThrow(/expired/);
  });

  it('names the missing authority or certificate', async () => {
    await expect(issueCert({ dir: join(folder, 'none'), bearer: 'ps' })).rejects.toThrow(
      described(/no certificate authority.*\n.*certs init/s),
    );
    expect(() => loadTls(join(folder, 'none'), self.task)).toThrow(/no certificate for \/job:ps\/task:0/);
    await expect(issueCert({ dir: folder, bearer: '../x' })).rejects.toThrow(
      /cannot issue a certificate for/,
    );
  });
});
