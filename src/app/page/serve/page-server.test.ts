/** The page over real HTTP: who gets what. */
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import type { PageState } from '../state.js';
import type { PageSource } from '../view/page-source.js';
import { Access, pageCode } from './access.js';
import { PageServer } from './page-server.js';

const TOKEN = '0123456789abcdef-secret';
const STATE = { cluster: 'mnist', cursor: 7, live: true, tasks: [] } as unknown as PageState;

const source: PageSource = {
  state: async () => STATE,
  watch: () => () => {},
  updatesAfter: (cursor) => (cursor === 7 ? [] : undefined),
  log: async (task, after) => ({
    lines: [{ number: after + 1, at: 0, level: 'info', text: task }],
    dropped: false,
  }),
  model: async () => null,
  summaries: async () => ({ histograms: [], texts: [], version: '3' }),
};

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let close: (() => void) | undefined;
afterEach(() => close?.());

async function serve(security: Security, now?: () => number) {
  const pages = new PageServer({
    access: new Access(security, () => ['node7.example'], now),
    source: () => source,
  });
  let admitted = 0;
  const server = createServer((request, response) => {
    const isPage = pages.serve(request, response, () => {
      admitted += 1;
    });
    if (!isPage) response.writeHead(204).end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  close = () => {
    pages[Symbol.dispose]();
    server.close();
    server.closeAllConnections();
  };
  const call = (path: string, headers: Record<string, string> = {}, body?: string): Promise<Answer> =>
    new Promise((done, fail) => {
      const method = body === undefined ? 'GET' : 'POST';
      const sent = httpRequest({ port, host: '127.0.0.1', path, method, headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
          if (path.startsWith('/page/events') && text.includes('retry')) response.destroy();
        });
        response.once('close', () =>
          done({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
        );
      });
      sent.once('error', fail);
      sent.end(body);
    });
  const logIn = (token: string) => call('/page/login', {}, new URLSearchParams({ token }).toString());
  return { call, logIn, port, admitted: () => admitted };
}

const PATHS = [
  '/page/state',
  '/page/events',
  '/page/log?task=a',
  '/page/model',
  '/page/summaries',
  '/page/page.js',
  '/page/page.css',
  '/page/x',
];

test('without credentials there is nothing but the login', async () => {
  const { call, admitted } = await serve({ kind: 'token', token: TOKEN });
  const { status, headers, body } = await call('/page');
  expect([status, headers['content-type']]).toEqual([401, 'text/html; charset=utf-8']);
  expect(body).toContain('<form method="post"');
  expect(headers['content-security-policy']).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
  for (const path of PATHS) expect(await call(path)).toMatchObject({ status: 401, body: 'log in first\n' });
  expect(admitted()).toBe(0);
  expect((await call('/other')).status).toBe(204);
});

test.each([
  ['the token', TOKEN],
  ['the code', pageCode(TOKEN)],
])('%s gives a cookie that opens the page', async (_, given) => {
  const { call, logIn, admitted } = await serve({ kind: 'token', token: TOKEN });
  const { status, headers } = await logIn(given);
  expect([status, headers.location]).toEqual([303, '/page']);
  const [cookie] = headers['set-cookie']!;
  expect(cookie).toMatch(
    /^shoal-page-\w{12}=\d+\.[\w-]{43}; Path=\/page; HttpOnly; SameSite=Strict; Max-Age=43200$/,
  );
  expect(cookie).not.toContain(TOKEN);
  const own = { cookie: `other=1; ${cookie!.split(';')[0]}` };
  expect(JSON.parse((await call('/page/state', own)).body)).toEqual(STATE);
  expect(JSON.parse((await call('/page/log?task=a&after=3', own)).body).lines[0].number).toBe(4);
  expect((await call('/page/events?after=7', own)).body).not.toContain('stale');
  expect((await call('/page/events?after=2', own)).body).toContain('event: stale');
  expect((await call('/page/unknown', own)).status).toBe(404);
  expect((await call('/page/state', own, 'x')).status).toBe(405);
  expect(admitted()).toBeGreaterThan(0);
});

test('a wrong token, a forged cookie and one that has expired do not', async () => {
  let now = 1_000_000;
  const { call, logIn } = await serve({ kind: 'token', token: TOKEN }, () => now);
  const wrong = await logIn('wrong');
  expect(wrong.status).toBe(403);
  expect(wrong.headers['set-cookie']).toBeUndefined();
  const [cookie = ''] = (await logIn(TOKEN)).headers['set-cookie']!;
  const [pair = ''] = cookie.split(';');
  const state = (value: string) => call('/page/state', { cookie: value });
  expect((await state(pair)).status).toBe(200);
  expect((await state(pair.replace(/=\d+/, '=99999999999'))).status).toBe(401);
  expect((await state(`${pair}x`)).status).toBe(401);
  now += 13 * 3600 * 1000;
  expect((await state(pair)).status).toBe(401);
});

test('what a page knows already is not sent again', async () => {
  const { call } = await serve({ kind: 'none' });
  expect(await call('/page/model')).toMatchObject({ status: 200, body: 'null' });
  expect((await call('/page/summaries?version=2')).status).toBe(200);
  expect(await call('/page/summaries?version=3')).toMatchObject({ status: 204, body: '' });
  // The state of a cluster that runs has an age.
  expect((await call('/page/state?after=7')).status).toBe(200);
});

test('a bearer token opens the state, as at the agent', async () => {
  const { call } = await serve({ kind: 'token', token: TOKEN });
  expect((await call('/page/state', { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
});

test.each<[Security, string]>([
  [{ kind: 'none' }, 'none'],
  [{ kind: 'token', token: TOKEN }, 'a token'],
])('other sites and foreign host names are refused, with credentials %s', async (security) => {
  const { call, port } = await serve(security);
  const authorization = `Bearer ${TOKEN}`;
  const own = `127.0.0.1:${port}`;
  const status = async (headers: Record<string, string>) =>
    (await call('/page/state', { authorization, host: own, ...headers })).status;
  expect(await status({})).toBe(200);
  expect(await status({ 'sec-fetch-site': 'same-origin', origin: `http://${own}` })).toBe(200);
  expect(await status({ 'sec-fetch-site': 'none' })).toBe(200);
  for (const site of ['cross-site', 'same-site']) expect(await status({ 'sec-fetch-site': site })).toBe(403);
  for (const origin of ['http://evil.example', 'null', `https://${own}`])
    expect(await status({ origin })).toBe(403);
  for (const host of ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:80'])
    expect(await status({ host })).toBe(421);
  // Without credentials only loopback; with them addresses and the names of the machine too.
  const others = security.kind === 'none' ? 421 : 200;
  for (const host of ['10.0.0.7:2222', 'NODE7.example', '[fe80::1]:2222'])
    expect(await status({ host })).toBe(others);
});

test('other paths are not its own, however they are written', async () => {
  const { call } = await serve({ kind: 'none' });
  for (const path of ['//', '/pages', '/PAGE', '//page', '/x/../page'])
    expect((await call(path)).status).toBe(204);
  for (const path of ['/page/../membership', '/page/%2e%2e/package.json', '/page/__proto__'])
    expect((await call(path)).status).toBe(404);
});

test('a login that is too long is refused', async () => {
  const { logIn } = await serve({ kind: 'token', token: TOKEN });
  expect((await logIn('x'.repeat(100_000)).catch(() => ({ status: 0 }))).status).not.toBe(303);
});

test('all answers have the headers that protect them', async () => {
  const { call } = await serve({ kind: 'none' });
  const { headers } = await call('/page/state');
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'content-security-policy': expect.stringMatching(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    ),
  });
  expect(headers['content-security-policy']).not.toMatch(/unsafe|https?:|\*/);
});
