/** The HTTP server of the REST API: limits for slow and idle connections, TLS, an end that waits for requests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TlsOptions } from 'node:tls';
import { getRequestListener } from '@hono/node-server';
import { listenError } from '../../../distributed/cluster/agent/listen-error.js';
import { type Address, isLoopback } from '../../../distributed/cluster/spec/address.js';
import { type AppOptions, restApp } from './app.js';
import { errorResponse } from './json-response.js';
import { isLocalName } from './local-names.js';

export interface RestOptions extends Omit<AppOptions, 'track'> {
  readonly listen: Address;
  readonly tls?: TlsOptions | undefined;
  readonly maxConnections: number;
}

const TIMES = {
  /** A client that has not sent its headers by then is disconnected. */
  headersTimeout: 10_000,
  connectionsCheckingInterval: 2000,
  /** The time of a body is limited where it is read, and answered. */
  requestTimeout: 0,
  keepAliveTimeout: 75_000,
  maxHeaderSize: 16_384,
};

/** While the server ends, it still takes requests for so long: clients and load balancers learn of it from answers. */
const DRAIN_MS = 500;

const IN_USE = 'stop that process, or choose another port with --rest_api_port';

export class RestServer {
  readonly address: Address;
  readonly #server: Server;
  readonly #state: State;

  private constructor(server: Server, address: Address, state: State) {
    this.#server = server;
    this.address = address;
    this.#state = state;
  }

  static async listen({ listen, tls, maxConnections, ...options }: RestOptions): Promise<RestServer> {
    const active = new Set<ServerResponse>();
    const state: State = { active, isClosing: false };
    const isLocal = isLoopback(listen.host) && options.security.kind === 'none';
    const track = (response: ServerResponse) => {
      active.add(response);
      response.once('close', () => active.delete(response));
    };
    const listener = getRequestListener(restApp({ ...options, track }).fetch, {
      overrideGlobalObjects: false,
    });
    const serve = (request: IncomingMessage, response: ServerResponse) => {
      if (state.isClosing) response.setHeader('connection', 'close');
      if (isLocal && !isLocalName(request.headers.host)) refuseName(response);
      else void listener(request, response);
    };
    const server: Server = tls ? createTlsServer({ ...TIMES, ...tls }, serve) : createServer(TIMES, serve);
    server.maxConnections = maxConnections;
    // A client that reads nothing of its answer for so long is disconnected: the answer would stay in memory.
    server.setTimeout(options.timeoutMs + options.body.timeoutMs);
    const { host, port } = listen;
    await new Promise<void>((done, fail) => {
      server.once('error', (cause) => fail(listenError('the REST API', listen, cause, { inUse: IN_USE })));
      server.listen({ host, port, backlog: 511 }, () => {
        // A later error concerns one connection; its client notices.
        server.removeAllListeners('error').on('error', () => {});
        done();
      });
    });
    return new RestServer(server, { host, port: (server.address() as AddressInfo).port }, state);
  }

  /**
   * Ends connections with their next answer, then accepts no more, and waits for running requests, at most `graceMs` in
   * all.
   */
  async close(graceMs: number): Promise<void> {
    const end = performance.now() + graceMs;
    const { active } = this.#state;
    this.#state.isClosing = true;
    for (const response of active) if (!response.headersSent) response.setHeader('connection', 'close');
    await sleep(Math.min(DRAIN_MS, graceMs));
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    this.#server.closeIdleConnections();
    while (active.size > 0 && performance.now() < end) await sleep(10);
    this.#server.closeAllConnections();
    await closed;
  }
}

interface State {
  /** The answers that are not sent yet. */
  readonly active: ReadonlySet<ServerResponse>;
  isClosing: boolean;
}

function refuseName(response: ServerResponse): void {
  response.writeHead(403, { 'content-type': 'application/json', connection: 'close' });
  response.end(
    errorResponse(
      'The Host header names another machine. This server listens on loopback only: use localhost, or start it with a token',
    ),
  );
}
