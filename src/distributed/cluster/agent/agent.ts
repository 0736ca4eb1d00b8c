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
import { getRequestListener } from '@hono/node-server';
import { describeError, invalid, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectorySync } from '../../../base/files/directories.js';
import { Uploads } from '../../store/disk/blob-upload.js';
import { SWEEP_EVERY_MS, sweepHourly } from '../../store/disk/sweeping.js';
import type { Identity } from '../membership/map.js';
import { type Address, formatAddress, isLoopback } from '../spec/address.js';
import { type Security, serverTls } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import {
  AGENT_LIMITS,
  type AgentLimits,
  type AgentOptions,
  type OperationHandler,
  type OrderHandler,
  type RequestHandler,
} from './agent-options.js';
import { BlobGuard } from './blobs/blob-access.js';
import { blobRoutes } from './blobs/blob-routes.js';
import { Admissions } from './calls/admissions.js';
import { agentRoutes, claimOf } from './calls/agent-routes.js';
import { deny, Gate } from './gate.js';
import { listenError } from './listen-error.js';
import { Strangers } from './strangers.js';
import { type StreamHandler, Streams } from './streams.js';
import { versionCheck } from './version-check.js';
import { encodeError, OrderName, validated } from './wire.js';

export class Agent {
  readonly address: Address;
  /** The HTTP server, for callers that add another protocol to it. */
  readonly server: Server;
  readonly uploads: Uploads | undefined;
  readonly #orders: Map<string, OrderHandler>;
  readonly #requests: Map<string, RequestHandler>;
  readonly #operations: Map<string, OperationHandler>;
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
    this.#operations = parts.operations;
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

  /** Registers the handler of what operators ask for; returns the function that removes it. */
  onOperation(name: string, handler: OperationHandler): () => void {
    validated(OrderName, name, 'operation');
    if (this.#operations.has(name)) throw invalid(`operation ${name} already has a handler`);
    this.#operations.set(name, handler);
    return () => void this.#operations.delete(name);
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
  readonly operations: Map<string, OperationHandler>;
  readonly streams: Streams;
  readonly admissions: Admissions;
  readonly closing: AbortController;
  readonly gate: Pick<Gate, 'active' | 'transferredAt'>;
}

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { security, listen, hooks, onNotice } = options;
  refuseOpenDoor(security, listen);
  const limits = { ...AGENT_LIMITS, ...options.limits };
  const root = options.blobRoot === undefined ? undefined : resolve(options.blobRoot);
  if (root !== undefined) makeDirectorySync(root);
  const uploads = root === undefined ? undefined : new Uploads(root);
  const orders = new Map<string, OrderHandler>();
  const requests = new Map<string, RequestHandler>();
  const operations = new Map<string, OperationHandler>();
  const closing = new AbortController();
  const admissions = new Admissions(() => hooks.health().task);
  const app = agentRoutes(options, limits, {
    ...{ orders, requests, operations, admissions },
    closing: closing.signal,
  });
  if (root !== undefined && uploads !== undefined) {
    const { maxBlobBytes, idleMs } = limits;
    app.route('/', blobRoutes({ root, uploads, guard: blobGuard(options, root), maxBlobBytes, idleMs }));
  }
  const strangers = new Strangers(limits, onNotice);
  const gate = new Gate(security, limits, versionCheck(options), (socket) => strangers.admit(socket));
  const streams = new Streams({
    claim: claimOf(options),
    judge: (from) => hooks.judgeCaller(from),
    admissions,
    self: () => hooks.health().task,
    maxStreams: limits.maxStreams,
    onNotice,
  });
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const server = httpServer(security, gate, listener, ({ request, response }) =>
    options.pages?.serve(request, response, () => strangers.admit(request.socket)),
  );
  acceptStreams(server, gate, streams);
  watchConnections(server, strangers, options, limits);
  closing.signal.addEventListener('abort', () => strangers.close());
  if (security.kind === 'tls') {
    closing.signal.addEventListener('abort', keepTlsCurrent(server as TlsServer, security, options, limits));
  }
  const address = await bind(server, listen, options.task);
  const stopSweeping = uploads && sweepHourly(() => uploads.sweep(SWEEP_EVERY_MS), undefined);
  closing.signal.addEventListener('abort', () => stopSweeping?.());
  return new Agent(server, address, {
    ...{ uploads, orders, requests, operations, streams, admissions, closing, gate },
  });
}

function refuseOpenDoor(security: Security, listen: Address): void {
  if (security.kind !== 'none' || isLoopback(listen.host)) return;
  throw new ShoalError(
    'SHOAL_CONFIG',
    `an agent without credentials cannot listen on ${formatAddress(listen)}, only on loopback`,
    {
      hint: 'create certificates with `shoal certs`, or set the same SHOAL_CLUSTER_TOKEN for all tasks',
    },
  );
}

function blobGuard(options: AgentOptions, root: string): BlobGuard {
  const { hooks, security, blobPolicy: policy } = options;
  return new BlobGuard({
    security,
    root,
    claim: claimOf(options),
    chief: () => hooks.chief(),
    judge: (from, orderedBy) => hooks.judgeWriter(from, orderedBy),
    policy,
  });
}

function httpServer(
  security: Security,
  gate: Gate,
  listener: (request: IncomingMessage, response: ServerResponse) => unknown,
  isForPage: (call: { request: IncomingMessage; response: ServerResponse }) => boolean | undefined,
): Server {
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (isForPage({ request, response })) return;
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
  return server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!gate.admits(request, response)) return;
    response.writeContinue();
    void listener(request, response);
  });
}

function acceptStreams(server: Server, gate: Gate, streams: Streams): void {
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    let refusal = gate.refusalOf(request);
    try {
      if (refusal === undefined) streams.accept(request, socket, head);
    } catch (error) {
      refusal = encodeError(error);
    }
    if (refusal !== undefined) deny(streams.refuse(request, socket), refusal.status, refusal.body);
  });
}

function watchConnections(
  server: Server,
  strangers: Strangers,
  { security, traffic, keepsProcess }: AgentOptions,
  { maxConnections }: AgentLimits,
): void {
  server.maxConnections = maxConnections;
  server.on('connection', (socket: Socket) => strangers.add(socket));
  server.on('secureConnection', (socket: Socket) => strangers.admit(socket));
  if (traffic) {
    const event = security.kind === 'tls' ? 'secureConnection' : 'connection';
    server.on(event, (socket: Socket) => traffic.watch(socket));
  }
  if (keepsProcess === false) server.unref().on('connection', (socket: Socket) => socket.unref());
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
