/** The HTTP server of the REST API: limits for slow and idle connections, TLS, an end that waits for requests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { getRequestListener } from '@hono/node-server';
import { listenError } from '../../../distributed/cluster/agent/listen-error.js';
import type { Address } from '../../../distributed/cluster/spec/address.js';
import { type AppOptions, restApp } from './app.js';

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

const IN_USE = 'stop that process, or choose another port with --rest_api_port';

export class RestServer {
  readonly address: Address;
  readonly #server: Server;
  readonly #active: ReadonlySet<ServerResponse>;

  private constructor(server: Server, address: Address, active: ReadonlySet<ServerResponse>) {
    this.#server = server;
    this.address = address;
    this.#active = active;
  }

  static async listen({ listen, tls, maxConnections, ...options }: RestOptions): Promise<RestServer> {
    const active = new Set<ServerResponse>();
    const track = (response: ServerResponse) => {
      active.add(response);
      response.once('close', () => active.delete(response));
    };
    const listener = getRequestListener(restApp({ ...options, track }).fetch, {
      overrideGlobalObjects: false,
    });
    const serve = (request: IncomingMessage, response: ServerResponse) => void listener(request, response);
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
    return new RestServer(server, { host, port: (server.address() as AddressInfo).port }, active);
  }

  /** Accepts no more connections, and waits for running requests, at most `graceMs`. */
  async close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    this.#server.closeIdleConnections();
    const end = performance.now() + graceMs;
    while (this.#active.size > 0 && performance.now() < end)
      await new Promise((tick) => setTimeout(tick, 10));
    this.#server.closeAllConnections();
    await closed;
  }
}
