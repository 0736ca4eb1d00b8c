/** The REST API at its edges: values that JSON can hardly hold, clients that announce much, names of other machines, the end. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Serving, serve } from '../serve.js';
import { writeHalfPlus, writeTypes } from '../testing/models.js';
import { parseExactly } from './json-text.js';

let root: string;
let serving: Serving;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-rest-edges-'));
  await writeHalfPlus(join(root, 'half'), 1, 2);
  await writeTypes(join(root, 'types'));
  serving = await serve({
    models: { half: join(root, 'half'), types: join(root, 'types') },
    restPort: 0,
    grpcPort: false,
    maxBodyBytes: 1 << 20,
    bodyTimeoutSecs: 3,
    log: () => {},
  });
});
afterAll(async () => {
  await serving?.close();
  await rm(root, { recursive: true, force: true });
});

test('a number of millions of digits is refused', () => {
  for (const digits of [1000, 16 << 20])
    expect(() => parseExactly(`{"inputs": [${'1'.repeat(digits)}]}`)).toThrow(/too many digits/);
});

const HALF = '/v1/models/half';

async function post(path: string, body: unknown) {
  const response = await fetch(`http://127.0.0.1:${serving.restPort}${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(serving.restPort as number, '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}

test('integers with a fraction or an exponent are exact, or an error', async () => {
  const send = (ids: string) =>
    post('/v1/models/types:predict', `{"signature_name": "ids", "inputs": [${ids}]}`);
  const exact = '1234567890123456789.0, 1234567890123456789e0, 123456789012345678.9e1, 0e999999999, 5.0';
  expect((await send(exact)).text).toContain(
    '[1234567890123456789, 1234567890123456789, 1234567890123456789, 0, 5]',
  );
  for (const inexact of ['12345678901234567.5', '1e19', '1e999999999', '1e-1', '1'.repeat(100_000)])
    expect((await send(inexact)).status).toBe(400);
});

test('the sign of zero is kept, and numbers that no double can hold are an error', async () => {
  const send = (numbers: string) =>
    post('/v1/models/types:predict', `{"signature_name": "floats", "instances": [[${numbers}]]}`);
  expect((await send('-0.0, 0.0')).text).toContain('[[-0.0, 0.0]]');
  for (const numbers of ['1e400, 1', 'NaN, -1e400'])
    expect(await send(numbers)).toMatchObject({
      status: 400,
      text: expect.stringContaining('Number too big'),
    });
});

test('base64 of a length that no bytes have is an error', async () => {
  const send = (b64: string) =>
    post('/v1/models/types:predict', { signature_name: 'bytes', instances: [{ b64 }] });
  for (const b64 of ['A', 'AAAAA', 'AA=', 'AAA==', 'A===']) expect((await send(b64)).status).toBe(400);
  for (const b64 of ['', 'AA', 'AA==', 'AAA', 'AAA=', 'AAAA']) expect((await send(b64)).status).toBe(200);
});

test('clients that announce a body and send nothing keep nobody from being answered', async () => {
  const sockets = Array.from({ length: 600 }, () => connect(serving.restPort as number, '127.0.0.1'));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  for (const socket of sockets)
    socket.write(`POST ${HALF}:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${1 << 20}\r\n\r\n`);
  await new Promise((resume) => setTimeout(resume, 200));
  expect((await post(`${HALF}:predict`, { instances: [[1]] })).status).toBe(200);
  for (const socket of sockets) socket.destroy();
});

test('a server that listens on loopback only refuses names of other machines', async () => {
  const status = async (host: string) =>
    /^HTTP\/1.1 (\d+)/.exec(
      await raw(`GET ${HALF} HTTP/1.1\r\nConnection: close\r\nHost: ${host}\r\n\r\n`),
    )?.[1];
  for (const host of ['localhost', 'LOCALHOST:8501', '127.0.0.1:1', '[::1]:8501', 'a.localhost', '10.1.2.3'])
    expect(await status(host)).toBe('200');
  for (const host of [
    'evil.example',
    'evil.example:8501',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
  ])
    expect(await status(host)).toBe('403');
});

test('a server with a token, or on all interfaces, is reached by any name', async () => {
  for (const options of [{ token: 'a-token-of-some-length' }, { host: '0.0.0.0' }]) {
    await using other = await serve({
      models: { half: join(root, 'half') },
      restPort: 0,
      grpcPort: false,
      log: () => {},
      ...options,
    });
    const status = await new Promise((resolve, reject) => {
      const headers = { host: 'models.example', authorization: 'Bearer a-token-of-some-length' };
      const port = other.restPort as number;
      httpRequest({ host: '127.0.0.1', port, path: '/v1/models/half', headers }, (response) =>
        resolve(response.resume().statusCode),
      )
        .on('error', reject)
        .end();
    });
    expect(status).toBe(200);
  }
});

test('a server that ends still answers for a moment, is not ready, and ends connections with its answers', async () => {
  const ending = await serve({
    models: { half: join(root, 'half') },
    restPort: 0,
    grpcPort: false,
    log: () => {},
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (path: string) =>
    new Promise<{ status: number | undefined; connection: string | undefined }>((resolve, reject) => {
      httpRequest({ host: '127.0.0.1', port: ending.restPort as number, path, agent }, (response) => {
        const { statusCode: status, headers } = response;
        response.resume().once('end', () => resolve({ status, connection: headers.connection }));
      })
        .on('error', reject)
        .end();
    });
  expect(await ask('/readyz')).toEqual({ status: 200, connection: 'keep-alive' });
  const closed = ending.close();
  expect(await ask('/readyz')).toEqual({ status: 503, connection: 'close' });
  expect(await ask('/v1/models/half')).toEqual({ status: 200, connection: 'close' });
  await closed;
  await expect(ask('/readyz')).rejects.toThrow(/ECONNREFUSED/);
});
