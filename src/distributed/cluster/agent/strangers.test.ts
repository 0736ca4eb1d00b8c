import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../../base/async/deadline.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../spec/security.js';
import { self, type TestAgent, testAgent } from '../testing/agents.js';

const LIMIT = 8;
const STRANGER_MS = 1000;
/** Long before the time limits of HTTP and of an idle TLS handshake. */
const SOON_MS = 6000;
const limits = { maxStrangersPerAddress: LIMIT, strangerMs: STRANGER_MS };
/** The header of a TLS record, and the first bytes of a ClientHello. */
const HALF_HELLO = Buffer.from('160301020001', 'hex');

let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-strangers-'));
  await initCerts({ dir: directory });
  await issueCert({ dir: directory, bearer: self.task });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const SECURITY: Readonly<Record<string, () => Security>> = {
  'a token': () => tokenSecurity('a-token-for-tests-only'),
  certificates: () => loadTls(directory, self.task),
};

let agent: TestAgent | undefined;
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await agent?.close();
  agent = undefined;
});

async function stranger({ address }: TestAgent): Promise<Socket> {
  const [host = '', port] = address.split(':');
  const socket = connect(Number(port), host);
  sockets.push(socket);
  socket.on('error', () => {}).resume();
  await once(socket, 'connect');
  return socket;
}

const isOpen = (socket: Socket): boolean => !socket.destroyed && socket.readyState === 'open';

describe.each(Object.keys(SECURITY))('an agent with %s', { timeout: 120_000 }, (kind) => {
  it('limits the connections of an address that have not authenticated, and serves tasks there', async () => {
    const notices: string[] = [];
    const security = SECURITY[kind]!();
    const onNotice = (line: string) => void notices.push(line);
    agent = await testAgent({ security, limits: { ...limits, strangerMs: 600_000 }, onNotice });
    // More tasks at this address than strangers are allowed, each with an open connection.
    const tasks = Array.from({ length: 2 * LIMIT }, () => agent!.client());
    for (const task of tasks) await task.health();
    const idle: Socket[] = [];
    for (let i = 0; i < 4 * LIMIT; i++) idle.push(await stranger(agent));
    await expect.poll(() => idle.filter(isOpen).length, { timeout: SOON_MS }).toBe(LIMIT);
    expect(idle.slice(-LIMIT).every(isOpen)).toBe(true);
    for (const task of tasks) await task.health();
    await agent.client().health();
    expect(notices).toEqual([
      expect.stringMatching(/more than 8 connections from 127\.0\.0\.1 have not authenticated/),
    ]);
  });

  it('closes a connection that does not authenticate in time, whatever it sends', async () => {
    agent = await testAgent({ security: SECURITY[kind]!(), limits });
    const [silent, slow] = [await stranger(agent), await stranger(agent)];
    slow.write(isTls(kind) ? HALF_HELLO : 'GET /health HTTP/1.1\r\nx: ');
    const drip = setInterval(() => slow.write('x'), STRANGER_MS / 10);
    try {
      await expect.poll(() => [silent, slow].map(isOpen), { timeout: SOON_MS }).toEqual([false, false]);
    } finally {
      clearInterval(drip);
    }
  });

  it('closes without waiting for connections that have not authenticated', async () => {
    agent = await testAgent({ security: SECURITY[kind]!() });
    const half = await stranger(agent);
    half.write(isTls(kind) ? HALF_HELLO : 'GET ');
    await agent.client().health();
    const begun = performance.now();
    await agent.close();
    agent = undefined;
    expect(performance.now() - begun).toBeLessThan(SOON_MS);
  });

  it('keeps an idle connection that has authenticated', async () => {
    agent = await testAgent({ security: SECURITY[kind]!(), limits });
    let disconnected = 0;
    const client = agent.client(undefined, { maxSockets: 1, onDisconnect: () => disconnected++ });
    await client.health();
    await sleep(3 * STRANGER_MS);
    await client.health();
    expect(disconnected).toBe(0);
  });
});

/** Whether a connection begins with a TLS handshake. */
const isTls = (kind: string): boolean => kind === 'certificates';
