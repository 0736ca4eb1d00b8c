/** The page at a real agent: beside its routes, with its credentials. */
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { initCerts, issueCert } from '../../../distributed/cluster/spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import { type TestAgent, testAgent } from '../../../distributed/cluster/testing/agents.js';
import type { PageState } from '../state.js';
import { Access } from './access.js';
import { PageServer } from './page-server.js';

const STATE = { cluster: 'mnist', cursor: 1 } as unknown as PageState;
let agent: TestAgent | undefined;
let folder: string | undefined;

afterEach(async () => {
  await agent?.close();
  agent = undefined;
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

async function serve(security: Security, limits = {}): Promise<void> {
  const source = {
    state: async () => STATE,
    watch: () => () => {},
    updatesAfter: () => [],
    log: async () => ({ lines: [], dropped: false }),
    model: async () => null,
    summaries: async () => ({ histograms: [], texts: [], version: '' }),
  };
  const pages = new PageServer({ access: new Access(security, () => []), source: () => source });
  agent = await testAgent({ security, pages, limits });
}

function call(path: string, options: RequestOptions = {}, body?: string) {
  const isTls = options.ca !== undefined;
  const url = `${isTls ? 'https' : 'http'}://${agent!.address}${path}`;
  return new Promise<{ status: number; cookie: string; body: string }>((done, fail) => {
    const method = body === undefined ? 'GET' : 'POST';
    const sent = (isTls ? httpsRequest : httpRequest)(url, { method, ...options }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      const [cookie = ''] = response.headers['set-cookie'] ?? [];
      response.on('error', () => {});
      response.once('close', () => done({ status: response.statusCode ?? 0, cookie, body: text }));
    });
    sent.once('error', fail);
    sent.end(body);
  });
}

test('the cookie of a login opens the page, but nothing else of the agent', async () => {
  const token = 'a-token-of-16-characters';
  await serve(tokenSecurity(token));
  expect((await call('/page/state')).status).toBe(401);
  const { cookie } = await call('/page/login', {}, `token=${token}`);
  const headers = { cookie: cookie.split(';')[0]! };
  expect(JSON.parse((await call('/page/state', { headers })).body)).toEqual(STATE);
  for (const path of ['/membership', '/metrics', '/health', '/blobs'])
    expect((await call(path, { headers })).status).toBe(401);
  const authorization = `Bearer ${token}`;
  expect((await call('/membership', { headers: { authorization } })).status).toBe(200);
});

test('a connection without credentials is closed in time, one that has logged in stays', async () => {
  const token = 'a-token-of-16-characters';
  await serve(tokenSecurity(token), { strangerMs: 300 });
  const { cookie } = await call('/page/login', {}, `token=${token}`);
  const headers = { cookie: cookie.split(';')[0]! };
  const begun = performance.now();
  const stream = call('/page/events?after=1', { headers }).then(() => performance.now() - begun);
  await new Promise((done) => setTimeout(done, 1500));
  const closing = agent!.close();
  agent = undefined;
  expect(await stream).toBeGreaterThan(1400);
  await closing;
});

test('with certificates a browser needs one of the cluster, and no login', async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-page-certs-'));
  await initCerts({ dir: folder });
  for (const bearer of ['/job:ps/task:0', 'operator']) await issueCert({ dir: folder, bearer });
  const security = loadTls(folder, '/job:ps/task:0' as never);
  await serve(security);
  const { ca, cert, key } = loadTls(folder, 'operator') as Extract<Security, { kind: 'tls' }>;
  const trusted = { ca, checkServerIdentity: () => undefined };
  expect(JSON.parse((await call('/page/state', { ...trusted, cert, key })).body)).toEqual(STATE);
  expect((await call('/page', { ...trusted, cert, key, headers: { host: 'evil.example' } })).status).toBe(
    421,
  );
  await expect(call('/page', trusted)).rejects.toThrow();
});

test('without credentials a browser of this machine sees the page, and still nothing else', async () => {
  await serve({ kind: 'none' });
  const headers = { 'sec-fetch-site': 'same-origin' };
  expect((await call('/page/state', { headers })).status).toBe(200);
  expect((await call('/membership', { headers })).status).toBe(401);
});
