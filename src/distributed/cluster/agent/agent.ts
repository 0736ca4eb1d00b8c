/**
 * The agent: the HTTP server in each task. It serves health, status and metrics, exchanges membership messages,
 * executes the chief's orders and stores blobs. It makes no membership decisions: the hooks do.
 *
 * Credentials are checked first: without them every request, whatever its path, gets the same 401 response.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { resolve } from 'node:path';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { joinSignals } from '../../../base/async/joined-signal.js';
import { describeError, invalid, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectorySync } from '../../../base/files/directories.js';
import type { Log } from '../../../base/text/log.js';
import { Uploads } from '../../store/disk/blob-upload.js';
import { SWEEP_EVERY_MS, sweepHourly } from '../../store/disk/sweeping.js';
import type { Identity } from '../membership/map.js';
import type { MembershipMessage } from '../membership/types.js';
import { type Address, formatAddress, isLoopback } from '../spec/address.js';
import { mayClaim, type Security, serverTls } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import { type Admission, Admissions } from './admissions.js';
import { readJson } from './agent-requests.js';
import { BlobGuard, type BlobPolicy } from './blobs/blob-access.js';
import { blobRoutes } from './blobs/blob-routes.js';
import { BodyBudget, TooManyBytesError } from './blobs/body-budget.js';
import { deny, Gate, type GateLimits } from './gate.js';
import { listenError } from './listen-error.js';
import { type StrangerLimits, Strangers } from './strangers.js';
import { type StreamHandler, Streams } from './streams.js';
import type { Traffic } from './traffic.js';
import { versionCheck } from './version-check.js';
import {
  type ClusterStatus,
  ExchangeSchema,
  encodeError,
  OrderName,
  OrderSchema,
  PulseSchema,
  type TaskHealth,
  validated,
} from './wire.js';

export interface AgentLimits extends GateLimits, StrangerLimits {
  readonly maxConnections: number;
  /** Streams of other tasks that are open at a time. */
  readonly maxStreams: number;
  readonly maxOrderBytes: number;
  readonly maxAskBytes: number;
  readonly maxMessageBytes: number;
  readonly maxBlobBytes: number;
  /** Bytes of request bodies in memory, of all peers together. */
  readonly maxBufferedBytes: number;
  /** The same for one peer. */
  readonly maxPeerBufferedBytes: number;
  readonly bodyTimeoutMs: number;
  readonly idleMs: number;
  /** How often the certificate files are checked for changes. */
  readonly certificatePollMs: number;
}

export const AGENT_LIMITS: AgentLimits = {
  maxRequests: 1024,
  maxTransfers: 64,
  maxConnections: 8192,
  maxStrangersPerAddress: 1024,
  maxStrangers: 4096,
  strangerMs: 10_000,
  maxStreams: 1024,
  maxOrderBytes: 64 << 20,
  maxAskBytes: 1 << 20,
  maxMessageBytes: 16 << 20,
  maxBlobBytes: 2 ** 43,
  maxBufferedBytes: 512 << 20,
  maxPeerBufferedBytes: 128 << 20,
  bodyTimeoutMs: 30_000,
  idleMs: 60_000,
  certificatePollMs: 10_000,
};

export interface OrderContext {
  readonly from: Identity;
  /** Fires when the caller closes the connection, when another process replaces it, or when the agent closes. */
  readonly signal: AbortSignal;
  /** For work that continues after the response. Its signal fires only when another process replaces the caller. */
  readonly work: Pick<Admission, 'signal' | 'hold'>;
}

/** Handles a request of another task; the payload is not validated, the result is returned as JSON. */
export type RequestHandler = OrderHandler;

/** Executes an order; the payload is not validated, the result is returned as JSON. */
export type OrderHandler = (payload: unknown, context: OrderContext) => Promise<unknown> | unknown;

export interface AgentHooks {
  health(): TaskHealth;
  status(): ClusterStatus;
  /** Processes a peer's message and returns the reply; `complete`: the reply includes the complete member map. */
  exchange(message: MembershipMessage, complete: boolean): MembershipMessage;
  /** Why an order of this sender is refused; undefined when it is accepted. */
  judge(from: Identity): string | undefined;
  /** Why a request of this sender is refused; undefined when it is accepted. */
  judgeCaller(from: Identity): string | undefined;
  /** Why this sender, or the chief whose order it executes, may not change blobs; undefined when allowed. */
  judgeWriter(from: Identity, orderedBy: Identity | undefined): string | undefined;
  chief(): TaskId | undefined;
  /** The main thread of a peer is blocked. */
  pulse?(from: Identity): void;
  /** The persistent connection of a peer has closed. */
  disconnected?(peer: Identity): void;
  /** The metrics in Prometheus' text format. */
  metrics(): string;
}

export interface AgentOptions {
  readonly cluster: string;
  readonly listen: Address;
  /** The task, for messages; default: none. */
  readonly task?: TaskId;
  readonly security: Security;
  readonly hooks: AgentHooks;
  /** The directory of the blobs; default: the agent stores no blobs. */
  readonly blobRoot?: string;
  /** Which role may write and delete which blobs; default: every role may change every blob. */
  readonly blobPolicy?: BlobPolicy;
  readonly limits?: Partial<AgentLimits>;
  /** Receives messages for the operator. */
  readonly onNotice?: Log;
  /** Whether the agent alone keeps the process running. Default: true. */
  readonly keepsProcess?: boolean;
  /** Counts the bytes of the connections; default: none. */
  readonly traffic?: Traffic;
}

type Env = { Bindings: HttpBindings };

export class Agent {
  readonly address: Address;
  /** The HTTP server, for callers that add another protocol to it. */
  readonly server: Server;
  readonly uploads: Uploads | undefined;
  readonly #orders: Map<string, OrderHandler>;
  readonly #requests: Map<string, RequestHandler>;
  readonly #streams: Streams;
  readonly #admissions: Admissions;
  readonly #closing: AbortController;
  readonly #gate: Pick<Gate, 'active' | 'transferredAt'>;

  constructor(server: Server, address: Address, parts: AgentState) {
    this.server = server;
    this.address = address;
    this.uploads = parts.uploads;
    this.#orders = parts.orders;
    this.#requests = parts.requests;
    this.#streams = parts.streams;
    this.#admissions = parts.admissions;
    this.#closing = parts.closing;
    this.#gate = parts.gate;
  }

  /** See `Gate`. */
  get transferredAt(): number {
    return this.#gate.transferredAt;
  }

  /** Registers the handler of an order. */
  onOrder(name: string, handler: OrderHandler): void {
    validated(OrderName, name, 'order');
    if (this.#orders.has(name)) throw invalid(`order ${name} already has a handler`);
    this.#orders.set(name, handler);
  }

  /** Registers the handler of a request; returns the function that removes it. */
  onRequest(name: string, handler: RequestHandler): () => void {
    validated(OrderName, name, 'request');
    if (this.#requests.has(name)) throw invalid(`request ${name} already has a handler`);
    this.#requests.set(name, handler);
    return () => void this.#requests.delete(name);
  }

  /** Registers the handler of streams with a protocol; returns the function that removes it. */
  onUpgrade(protocol: string, handler: StreamHandler): () => void {
    return this.#streams.handle(protocol, handler);
  }

  /** Ends the work of all predecessors of a process. */
  supersede(latest: Identity): void {
    this.#admissions.supersede(latest);
  }

  /** Closes the streams of a process that is lost or has left. */
  endStreams(of: Identity): void {
    this.#admissions.endStreams(of);
  }

  /**
   * Rejects new calls, waits `graceMs` for running ones, then aborts them and closes streams. Removes
   * unfinished uploads.
   */
  async close({ graceMs = 2000 }: { readonly graceMs?: number } = {}): Promise<void> {
    const closed = new Promise<void>((done) => this.server.close(() => done()));
    this.#closing.abort(new ShoalError('SHOAL_ABORTED', 'the agent is closing'));
    this.server.closeIdleConnections();
    const end = performance.now() + graceMs;
    while (this.#gate.active > 0 && performance.now() < end)
      await new Promise((tick) => setTimeout(tick, 10));
    this.#streams.close();
    this.server.closeAllConnections();
    await Promise.all([closed, this.uploads?.close()]);
  }
}

interface AgentState {
  readonly uploads: Uploads | undefined;
  readonly orders: Map<string, OrderHandler>;
  readonly requests: Map<string, RequestHandler>;
  readonly streams: Streams;
  readonly admissions: Admissions;
  readonly closing: AbortController;
  readonly gate: Pick<Gate, 'active' | 'transferredAt'>;
}

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { security, listen } = options;
  if (security.kind === 'none' && !isLoopback(listen.host)) {
    throw new ShoalError(
      'SHOAL_CONFIG',
      `an agent without credentials cannot listen on ${formatAddress(listen)}, only on loopback`,
      {
        hint: 'create certificates with `shoal certs`, or set the same SHOAL_CLUSTER_TOKEN for all tasks',
      },
    );
  }
  const limits = { ...AGENT_LIMITS, ...options.limits };
  const root = options.blobRoot === undefined ? undefined : resolve(options.blobRoot);
  if (root !== undefined) makeDirectorySync(root);
  const uploads = root === undefined ? undefined : new Uploads(root);
  const orders = new Map<string, OrderHandler>();
  const requests = new Map<string, RequestHandler>();
  const closing = new AbortController();
  const admissions = new Admissions(() => options.hooks.health().task);
  const app = routes(options, limits, { orders, requests, admissions }, closing.signal);
  if (root !== undefined && uploads !== undefined) {
    const { hooks, blobPolicy: policy } = options;
    const guard = new BlobGuard({
      security,
      root,
      claim: claimOf(options),
      chief: () => hooks.chief(),
      judge: (from, orderedBy) => hooks.judgeWriter(from, orderedBy),
      policy,
    });
    const { maxBlobBytes, idleMs } = limits;
    app.route('/', blobRoutes({ root, uploads, guard, maxBlobBytes, idleMs }));
  }
  const strangers = new Strangers(limits, options.onNotice);
  const gate = new Gate(security, limits, versionCheck(options), (socket) => strangers.admit(socket));
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (gate.admits(request, response)) void listener(request, response);
  };
  const http = {
    headersTimeout: 10_000,
    connectionsCheckingInterval: 5000,
    requestTimeout: 0,
    keepAliveTimeout: 75_000,
    maxHeaderSize: 16_384,
  };
  const server: Server =
    security.kind === 'tls'
      ? createTlsServer({ ...http, ...serverTls(security) }, serve)
      : createServer(http, serve);
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!gate.admits(request, response)) return;
    response.writeContinue();
    void listener(request, response);
  });
  const { hooks, onNotice } = options;
  const streams = new Streams({
    claim: claimOf(options),
    judge: (from) => hooks.judgeCaller(from),
    admissions,
    self: () => hooks.health().task,
    maxStreams: limits.maxStreams,
    onNotice,
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    let refusal = gate.refusalOf(request);
    try {
      if (refusal === undefined) streams.accept(request, socket, head);
    } catch (error) {
      refusal = encodeError(error);
    }
    if (refusal !== undefined) deny(streams.refuse(request, socket), refusal.status, refusal.body);
  });
  server.maxConnections = limits.maxConnections;
  server.on('connection', (socket: Socket) => strangers.add(socket));
  server.on('secureConnection', (socket: Socket) => strangers.admit(socket));
  closing.signal.addEventListener('abort', () => strangers.close());
  if (security.kind === 'tls') {
    closing.signal.addEventListener('abort', keepTlsCurrent(server as TlsServer, security, options, limits));
  }
  const { traffic } = options;
  if (traffic)
    server.on(security.kind === 'tls' ? 'secureConnection' : 'connection', (socket: Socket) =>
      traffic.watch(socket),
    );
  if (options.keepsProcess === false) server.unref().on('connection', (socket: Socket) => socket.unref());
  const address = await bind(server, listen, options.task);
  const stopSweeping = uploads && sweepHourly(() => uploads.sweep(SWEEP_EVERY_MS), undefined);
  closing.signal.addEventListener('abort', () => stopSweeping?.());
  return new Agent(server, address, {
    uploads,
    orders,
    requests,
    streams,
    admissions,
    closing,
    gate,
  });
}

/** Makes new connections use the certificate on disk; returns the function that stops this. */
function keepTlsCurrent(
  server: TlsServer,
  security: Extract<Security, { kind: 'tls' }>,
  { onNotice }: AgentOptions,
  { certificatePollMs }: AgentLimits,
): () => void {
  const timer = setInterval(() => {
    try {
      if (!security.reload?.()) return;
      server.setSecureContext(serverTls(security));
      onNotice?.('the certificate has changed on disk; new connections use the new one');
    } catch (error) {
      onNotice?.(
        `the certificate on disk is invalid, the previous one stays in use: ${describeError(error)}`,
        'error',
      );
    }
  }, certificatePollMs);
  timer.unref();
  return () => clearInterval(timer);
}

const IN_USE =
  'stop that process, which may be another run of this task, or change the address of this task in the configuration of all tasks';

function bind(server: Server, { host, port }: Address, task: TaskId | undefined): Promise<Address> {
  return new Promise((done, fail) => {
    const who = task === undefined ? 'an agent' : `the agent of ${task}`;
    server.once('error', (cause) => fail(listenError(who, { host, port }, cause, { task, inUse: IN_USE })));
    server.listen({ host, port, backlog: 511 }, () => {
      // A later error concerns one connection; its client notices.
      server.removeAllListeners('error').on('error', () => {});
      done({ host, port: (server.address() as AddressInfo).port });
    });
  });
}

/**
 * Throws when the caller belongs to another cluster, or its certificate does not cover the task that it claims to be.
 */
function claimOf({ cluster, security }: AgentOptions) {
  return (request: IncomingMessage, name: string, task: TaskId): void => {
    if (name !== cluster) {
      throw new ShoalError('SHOAL_FORBIDDEN', `this task belongs to cluster ${cluster}, not to ${name}`, {
        hint: 'two clusters use the same address: check the ports and the cluster names',
      });
    }
    if (!mayClaim(security, request, task)) {
      throw new ShoalError('SHOAL_FORBIDDEN', `the caller's certificate is not valid for ${task}`);
    }
  };
}

function routes(
  options: AgentOptions,
  limits: AgentLimits,
  { orders, requests, admissions }: Pick<AgentState, 'orders' | 'requests' | 'admissions'>,
  closing: AbortSignal,
) {
  const { hooks } = options;
  const claim = claimOf(options);
  const standing = new WeakMap<Socket, Identity>();
  const budget = new BodyBudget(limits.maxBufferedBytes, limits.maxPeerBufferedBytes);
  const app = new Hono<Env>();

  app.get('/health', (c) => c.json(hooks.health()));
  app.get('/membership', (c) => c.json(hooks.status()));
  app.get('/metrics', (c) =>
    c.body(hooks.metrics(), 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }),
  );

  app.post('/membership/:kind{announce|heartbeat|probe}', async (c) => {
    const { incoming } = c.env;
    const kind = c.req.param('kind');
    const bounds = { maxBytes: limits.maxMessageBytes, timeoutMs: limits.bodyTimeoutMs, budget };
    const { cluster: name, message } = validated(ExchangeSchema, await readJson(incoming, bounds), 'message');
    const { task, incarnation, nonce } = message.from;
    claim(incoming, name, task);
    if (kind === 'heartbeat') {
      const isKnown = standing.has(incoming.socket);
      standing.set(incoming.socket, { task, incarnation, nonce });
      if (!isKnown) {
        incoming.socket.once('close', () => hooks.disconnected?.(standing.get(incoming.socket)!));
      }
    }
    return c.json(hooks.exchange(message, kind === 'announce'));
  });

  app.post('/membership/pulse', async (c) => {
    const { incoming } = c.env;
    const bounds = { maxBytes: limits.maxAskBytes, timeoutMs: limits.bodyTimeoutMs, budget };
    const { cluster: name, from } = validated(PulseSchema, await readJson(incoming, bounds), 'pulse');
    claim(incoming, name, from.task);
    hooks.pulse?.(from);
    return c.json(null);
  });

  /** Executes a call that the fence has admitted, when the calls of the caller's predecessors are over. */
  const execute = async (
    handler: OrderHandler,
    { payload, from }: { readonly payload?: unknown; readonly from: Identity },
    what: string,
    outgoing: ServerResponse,
  ): Promise<{ result: unknown }> => {
    const gone = new AbortController();
    outgoing.once('close', () =>
      gone.abort(new ShoalError('SHOAL_ABORTED', `${from.task} closed the connection`)),
    );
    const work = admissions.admit(from, 'call', what);
    try {
      await work.ready;
      using joined = joinSignals(gone.signal, closing, work.signal);
      const { signal } = joined;
      signal.throwIfAborted();
      return { result: (await handler(payload, { from, signal, work })) ?? null };
    } finally {
      work.release();
    }
  };

  app.post('/orders/:name', async (c) => {
    const { incoming, outgoing } = c.env;
    const name = validated(OrderName, c.req.param('name'), 'order');
    const bounds = { maxBytes: limits.maxOrderBytes, timeoutMs: limits.bodyTimeoutMs, budget };
    const order = validated(OrderSchema, await readJson(incoming, bounds), 'order');
    claim(incoming, order.cluster, order.from.task);
    const refused = hooks.judge(order.from);
    if (refused !== undefined) {
      throw new ShoalError('SHOAL_FORBIDDEN', `order ${name} is refused: ${refused}`);
    }
    const handler = orders.get(name);
    if (handler === undefined)
      throw new ShoalError('SHOAL_NOT_FOUND', `this task has no handler for order ${name}`);
    return c.json(await execute(handler, order, `order ${name}`, outgoing));
  });

  app.post('/requests/:name', async (c) => {
    const { incoming, outgoing } = c.env;
    const name = validated(OrderName, c.req.param('name'), 'request');
    const bounds = { maxBytes: limits.maxAskBytes, timeoutMs: limits.bodyTimeoutMs, budget };
    const request = validated(OrderSchema, await readJson(incoming, bounds), 'request');
    claim(incoming, request.cluster, request.from.task);
    const refused = hooks.judgeCaller(request.from);
    if (refused !== undefined) {
      throw new ShoalError('SHOAL_FORBIDDEN', `request ${name} is refused: ${refused}`);
    }
    const handler = requests.get(name);
    if (handler === undefined) {
      throw new ShoalError('SHOAL_NOT_FOUND', `this task has no handler for request ${name}`);
    }
    return c.json(await execute(handler, request, `request ${name}`, outgoing));
  });

  app.notFound((c) => {
    const { status, body } = encodeError(new ShoalError('SHOAL_NOT_FOUND', 'no such route'));
    return c.body(body, status as 404, { 'content-type': 'application/json' });
  });
  app.onError((error, c) => {
    const { status, body } = encodeError(error);
    if (error instanceof TooManyBytesError) {
      return c.body(body, 429, { 'content-type': 'application/json', 'retry-after': '1' });
    }
    return c.body(body, status as 500, { 'content-type': 'application/json' });
  });
  return app;
}
