/** The routes of an agent for health, membership, orders and requests. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { joinSignals } from '../../../../base/async/joined-signal.js';
import { ShoalError } from '../../../../base/errors/errors.js';
import type { Identity } from '../../membership/map.js';
import { isOperator, mayClaim, type Security } from '../../spec/security.js';
import type { TaskId } from '../../spec/task-id.js';
import type {
  AgentHooks,
  AgentLimits,
  AgentOptions,
  OperationHandler,
  OrderHandler,
} from '../agent-options.js';
import { readJson } from '../agent-requests.js';
import { BodyBudget, TooManyBytesError } from '../blobs/body-budget.js';
import { ExchangeSchema, encodeError, OrderName, OrderSchema, PulseSchema, validated } from '../wire.js';
import type { Admissions } from './admissions.js';

export interface CallHandlers {
  readonly orders: ReadonlyMap<string, OrderHandler>;
  readonly requests: ReadonlyMap<string, OrderHandler>;
  readonly operations: ReadonlyMap<string, OperationHandler>;
  readonly admissions: Admissions;
  /** Fires when the agent closes. */
  readonly closing: AbortSignal;
}

type Env = { Bindings: HttpBindings };

/** Throws when the caller belongs to another cluster, or its certificate does not cover the task that it claims to be. */
type Claim = (request: IncomingMessage, cluster: string, task: TaskId) => void;

export function claimOf({ cluster, security }: Pick<AgentOptions, 'cluster' | 'security'>): Claim {
  return (request, name, task) => {
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

/** What the routes share. */
interface Shared {
  readonly app: Hono<Env>;
  readonly hooks: AgentHooks;
  readonly claim: Claim;
  /** How a body is read. */
  readonly bounds: (maxBytes: number) => Parameters<typeof readJson>[1];
}

export function agentRoutes(options: AgentOptions, limits: AgentLimits, handlers: CallHandlers): Hono<Env> {
  const { hooks } = options;
  const budget = new BodyBudget(limits.maxBufferedBytes, limits.maxPeerBufferedBytes);
  const app = new Hono<Env>();
  const bounds = (maxBytes: number) => ({ maxBytes, timeoutMs: limits.bodyTimeoutMs, budget });
  const shared: Shared = { app, hooks, claim: claimOf(options), bounds };

  app.get('/health', (c) => c.json(hooks.health()));
  app.get('/membership', (c) => c.json(hooks.status()));
  app.get('/metrics', (c) =>
    c.body(hooks.metrics(), 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }),
  );
  membershipRoutes(shared, limits);
  callRoutes(shared, {
    kind: 'order',
    maxBytes: limits.maxOrderBytes,
    judge: (from) => hooks.judge(from),
    handlers: handlers.orders,
    calls: handlers,
  });
  callRoutes(shared, {
    kind: 'request',
    maxBytes: limits.maxAskBytes,
    judge: (from) => hooks.judgeCaller(from),
    handlers: handlers.requests,
    calls: handlers,
  });
  operationRoutes(shared, options.security, limits, handlers.operations);
  app.notFound((c) => failed(c, new ShoalError('SHOAL_NOT_FOUND', 'no such route')));
  app.onError((error, c) => failed(c, error));
  return app;
}

function failed(c: Context<Env>, error: unknown): Response {
  const { status, body } = encodeError(error);
  if (error instanceof TooManyBytesError) {
    return c.body(body, 429, { 'content-type': 'application/json', 'retry-after': '1' });
  }
  return c.body(body, status as 500, { 'content-type': 'application/json' });
}

function membershipRoutes({ app, hooks, claim, bounds }: Shared, limits: AgentLimits): void {
  const standing = new WeakMap<Socket, Identity>();

  app.post('/membership/:kind{announce|heartbeat|probe}', async (c) => {
    const { incoming } = c.env;
    const kind = c.req.param('kind');
    const body = await readJson(incoming, bounds(limits.maxMessageBytes));
    const { cluster, message } = validated(ExchangeSchema, body, 'message');
    const { task, incarnation, nonce } = message.from;
    claim(incoming, cluster, task);
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
    const body = await readJson(incoming, bounds(limits.maxAskBytes));
    const { cluster, from } = validated(PulseSchema, body, 'pulse');
    claim(incoming, cluster, from.task);
    hooks.pulse?.(from);
    return c.json(null);
  });
}

function operationRoutes(
  { app, bounds }: Shared,
  security: Security,
  { maxAskBytes }: AgentLimits,
  handlers: ReadonlyMap<string, OperationHandler>,
): void {
  app.post('/operations/:name', async (c) => {
    const { incoming } = c.env;
    const name = validated(OrderName, c.req.param('name'), 'operation');
    if (!isOperator(security, incoming)) {
      throw new ShoalError('SHOAL_FORBIDDEN', `operation ${name} needs the certificate of an operator`, {
        hint: 'create one: shoal certs issue operator',
      });
    }
    const handler = handlers.get(name);
    if (handler === undefined)
      throw new ShoalError('SHOAL_NOT_FOUND', `this task has no handler for operation ${name}`);
    const payload = await readJson(incoming, bounds(maxAskBytes));
    return c.json({ result: (await handler(payload)) ?? null });
  });
}

interface CallKind {
  readonly kind: 'order' | 'request';
  readonly maxBytes: number;
  /** Why a call of this sender is refused; undefined when it is accepted. */
  readonly judge: (from: Identity) => string | undefined;
  readonly handlers: ReadonlyMap<string, OrderHandler>;
  readonly calls: CallHandlers;
}

function callRoutes(
  { app, claim, bounds }: Shared,
  { kind, maxBytes, judge, handlers, calls }: CallKind,
): void {
  app.post(`/${kind}s/:name`, async (c) => {
    const { incoming, outgoing } = c.env;
    const name = validated(OrderName, c.req.param('name'), kind);
    const call = validated(OrderSchema, await readJson(incoming, bounds(maxBytes)), kind);
    claim(incoming, call.cluster, call.from.task);
    const refused = judge(call.from);
    if (refused !== undefined) {
      throw new ShoalError('SHOAL_FORBIDDEN', `${kind} ${name} is refused: ${refused}`);
    }
    const handler = handlers.get(name);
    if (handler === undefined) {
      throw new ShoalError('SHOAL_NOT_FOUND', `this task has no handler for ${kind} ${name}`);
    }
    return c.json(await execute(handler, call, `${kind} ${name}`, outgoing, calls));
  });
}

/** Executes a call that the fence has admitted, when the calls of the caller's predecessors are over. */
async function execute(
  handler: OrderHandler,
  { payload, from }: { readonly payload?: unknown; readonly from: Identity },
  what: string,
  outgoing: ServerResponse,
  { admissions, closing }: CallHandlers,
): Promise<{ result: unknown }> {
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
}
