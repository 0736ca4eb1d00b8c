/**
 * Serves the page and its data over an HTTP server: only GET, but for the login. The agent calls it before it looks at
 * credentials, which are this file's matter for every path that begins with /page.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { messageOf } from '../../../base/errors/errors.js';
import type { Pages } from '../../../distributed/cluster/agent/agent-options.js';
import type { PageSource } from '../view/page-source.js';
import type { Access } from './access.js';
import { pageAsset } from './assets.js';
import { EventStreams } from './event-streams.js';
import { LOGIN_POLICY, loginPage } from './login.js';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const MOST_REQUESTS = 64;
const MOST_LOGIN_BYTES = 4096;
const LOGIN_MS = 5000;
const WRONG_LOGIN_MS = 300;

const compressed = promisify(gzip);

export interface PageServerOptions {
  readonly access: Access;
  /** Undefined while the task starts. */
  readonly source: () => PageSource | undefined;
}

export class PageServer implements Pages, Disposable {
  readonly #options: PageServerOptions;
  readonly #streams = new EventStreams();
  #active = 0;

  constructor(options: PageServerOptions) {
    this.#options = options;
  }

  serve(request: IncomingMessage, response: ServerResponse, admit: () => void): boolean {
    const [, path, query] = /^\/page((?:\/[^?#]*)?)(?:\?([^#]*))?$/.exec(request.url ?? '') ?? [];
    if (path === undefined) return false;
    setHeaders(response);
    if (this.#active >= MOST_REQUESTS) {
      send(response, 503, 'too many requests');
      return true;
    }
    this.#active += 1;
    response.once('close', () => {
      this.#active -= 1;
    });
    void this.#answer(request, response, { path, query: new URLSearchParams(query), admit }).catch(
      (error: unknown) => {
        if (!response.headersSent) send(response, 502, messageOf(error));
        else response.destroy();
      },
    );
    return true;
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    {
      path,
      query,
      admit,
    }: { readonly path: string; readonly query: URLSearchParams; readonly admit: () => void },
  ): Promise<void> {
    const verdict = this.#options.access.judge(request);
    if (verdict.kind === 'refused') {
      send(response, verdict.status, verdict.why);
      return;
    }
    if (path === '/login' && request.method === 'POST') return await this.#logIn(request, response);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      send(response, 405, 'the page only shows');
      return;
    }
    if (verdict.kind === 'login') {
      if (path === '' || path === '/' || path === '/login') sendLogin(response, 401, false);
      else send(response, 401, 'log in first');
      return;
    }
    admit();
    await this.#show(request, response, path, query);
  }

  async #show(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
  ): Promise<void> {
    if (path === '/login' || path === '/') {
      response.writeHead(303, { location: '/page' }).end();
      return;
    }
    const file = pageAsset(path === '' ? 'index.html' : path.slice(1));
    if (file) return await reply(request, response, file.type, file.body);
    if (path === '') {
      send(response, 503, 'the page is not built: run `npm run build` in the checkout');
      return;
    }
    const source = this.#options.source();
    if (source === undefined) {
      send(response, 503, 'the task is starting');
      return;
    }
    if (path === '/state') {
      const state = await source.state();
      if (!state.live && query.get('after') === String(state.cursor)) response.writeHead(204).end();
      else await replyJson(request, response, state);
      return;
    }
    if (path === '/events') {
      this.#streams.open(response, source, cursorOf(request, query));
      return;
    }
    if (path === '/log') {
      const after = Number(query.get('after') ?? 0);
      return await replyJson(
        request,
        response,
        await source.log(query.get('task') ?? '', Number.isSafeInteger(after) ? after : 0),
      );
    }
    if (path === '/model') return await replyJson(request, response, await source.model());
    if (path === '/summaries') {
      const summaries = await source.summaries();
      if (summaries.version !== query.get('version')) return await replyJson(request, response, summaries);
      response.writeHead(204).end();
      return;
    }
    send(response, 404, 'there is no such page');
  }

  async #logIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const token = new URLSearchParams(body ?? '').get('token') ?? '';
    const cookie = this.#options.access.logIn(token, 'encrypted' in request.socket);
    if (cookie === undefined) {
      await new Promise((done) => setTimeout(done, WRONG_LOGIN_MS));
      sendLogin(response, 403, true);
      return;
    }
    response.writeHead(303, { location: '/page', 'set-cookie': cookie, connection: 'close' }).end();
  }

  [Symbol.dispose](): void {
    this.#streams[Symbol.dispose]();
  }
}

function cursorOf({ headers }: IncomingMessage, query: URLSearchParams): number {
  const last = headers['last-event-id'] ?? query.get('after') ?? '';
  return /^\d{1,15}$/.test(String(last)) ? Number(last) : Number.NaN;
}

/** With the policy `no-referrer` the login form would have no origin to compare. */
function setHeaders(response: ServerResponse): void {
  response.setHeader('content-security-policy', POLICY);
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('referrer-policy', 'same-origin');
  response.setHeader('cross-origin-opener-policy', 'same-origin');
  response.setHeader('cross-origin-resource-policy', 'same-origin');
  response.setHeader('cache-control', 'no-store');
}

/** Of a connection without credentials nothing is expected any more. */
function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' });
  response.end(`${text}\n`);
}

function sendLogin(response: ServerResponse, status: number, isWrong: boolean): void {
  response.setHeader('content-security-policy', LOGIN_POLICY);
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', connection: 'close' });
  response.end(loginPage(isWrong));
}

const replyJson = (request: IncomingMessage, response: ServerResponse, value: unknown): Promise<void> =>
  reply(request, response, 'application/json', Buffer.from(JSON.stringify(value)));

async function reply(
  request: IncomingMessage,
  response: ServerResponse,
  type: string,
  body: Buffer,
): Promise<void> {
  const isGzip = body.byteLength > 1000 && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const sent = isGzip ? await compressed(body) : body;
  response.writeHead(200, {
    'content-type': type,
    'content-length': sent.byteLength,
    ...(isGzip && { 'content-encoding': 'gzip' }),
  });
  response.end(request.method === 'HEAD' ? undefined : sent);
}

/** The body of a form; undefined if it is too long or too late. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const timer = setTimeout(() => request.destroy(), LOGIN_MS);
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.byteLength;
      if (size > MOST_LOGIN_BYTES) return undefined;
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  } finally {
    clearTimeout(timer);
  }
}
