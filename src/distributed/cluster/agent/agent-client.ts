/** Client for the agent of a peer. Every error names the peer. */
import type { Duplex } from 'node:stream';
import { decodeVersions, type Speaker, VERSIONS_HEADER } from '../../../base/bytes/versions.js';
import type { Identity } from '../membership/map.js';
import type { MembershipMessage } from '../membership/types.js';
import { callerHeader } from './blobs/blob-access.js';
import { BlobClient } from './blobs/blob-client.js';
import { HttpPeer, PeerError, type PeerOptions } from './http-peer.js';
import { prepareSocket, streamPath, TASK_HEADER, upgradeToken } from './streams.js';
import {
  type ClusterStatus,
  HealthSchema,
  MessageSchema,
  StatusSchema,
  type TaskHealth,
  validated,
} from './wire.js';

export interface AgentClientOptions extends PeerOptions {
  /** The name of the cluster that the peer must belong to. */
  readonly cluster?: string;
  /** The task that makes the calls; default: none, as for an operator outside the cluster. */
  readonly identity?: () => Identity;
}

export interface AgentCallOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface StreamOptions {
  /** Until the stream is open. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** An open stream. It belongs to the caller: closing the client does not close it. */
export interface Stream {
  readonly socket: Duplex;
  /** Bytes of the peer that were read with its response. */
  readonly head: Buffer;
  /** The peer's name and address, for messages. */
  readonly label: string;
  /** The versions that the peer speaks. */
  readonly versions: Speaker['versions'];
}

const TIMEOUT_MS = 5000;
const ORDER_TIMEOUT_MS = 600_000;

export class AgentClient {
  readonly blobs: BlobClient;
  readonly #peer: HttpPeer;
  readonly #cluster: string;

  constructor(options: AgentClientOptions) {
    this.#peer = new HttpPeer(options);
    this.#cluster = options.cluster ?? 'shoal';
    const { identity } = options;
    this.blobs = new BlobClient(this.#peer, (orderedBy) =>
      identity === undefined ? {} : callerHeader(this.#cluster, identity(), orderedBy),
    );
  }

  get address(): string {
    return this.#peer.address;
  }

  /** The peer's name and address, for messages. */
  get label(): string {
    return this.#peer.label;
  }

  async health(options: AgentCallOptions = {}): Promise<TaskHealth> {
    return this.#checked(HealthSchema, await this.#get('/health', options));
  }

  /** The cluster as this peer sees it. */
  async status(options: AgentCallOptions & { readonly once?: boolean } = {}): Promise<ClusterStatus> {
    return this.#checked(StatusSchema, await this.#get('/membership', options));
  }

  async metrics({ timeoutMs = TIMEOUT_MS, signal }: AgentCallOptions = {}): Promise<string> {
    const answer = await this.#peer.callAgain({ path: '/metrics', timeoutMs, signal });
    return Buffer.concat(await answer.toArray()).toString('utf8');
  }

  /** One membership exchange. Not retried: membership handles the failure. */
  async exchange(
    kind: 'announce' | 'heartbeat' | 'probe',
    message: MembershipMessage,
    { timeoutMs = TIMEOUT_MS, signal }: AgentCallOptions = {},
  ): Promise<MembershipMessage> {
    const answer = await this.#peer.json({
      ...post({ cluster: this.#cluster, message }),
      path: `/membership/${kind}`,
      timeoutMs,
      signal,
      once: true,
    });
    const reply = this.#checked(MessageSchema, answer);
    const { task } = this.#peer;
    // The peer's credentials were verified for this task only.
    if (task !== undefined && reply.from.task !== task) {
      throw new PeerError('SHOAL_UNREACHABLE', 'other', `${this.label} answers as ${reply.from.task}`, {
        task,
      });
    }
    return reply;
  }

  /**
   * Sends an order as the chief and waits for its result. Retried only with `again`, which the caller sets for
   * idempotent orders.
   */
  async order(
    name: string,
    from: Identity,
    payload: unknown,
    options: AgentCallOptions & { readonly again?: boolean } = {},
  ): Promise<unknown> {
    const { timeoutMs = ORDER_TIMEOUT_MS, signal, again = false } = options;
    return this.#ask(`/orders/${encodeURIComponent(name)}`, from, payload, {
      timeoutMs,
      signal,
      once: !again,
    });
  }

  /** Sends a request as a task. Retried only with `again`, which the caller sets for idempotent requests. */
  async request(
    name: string,
    from: Identity,
    payload: unknown,
    options: AgentCallOptions & { readonly again?: boolean } = {},
  ): Promise<unknown> {
    const { timeoutMs = TIMEOUT_MS, signal, again = false } = options;
    return this.#ask(`/requests/${encodeURIComponent(name)}`, from, payload, {
      timeoutMs,
      signal,
      once: !again,
    });
  }

  /** Asks the task as an operator, who is no task. Not retried. */
  async operate(
    name: string,
    payload: unknown,
    { timeoutMs = TIMEOUT_MS, signal }: AgentCallOptions = {},
  ): Promise<unknown> {
    const path = `/operations/${encodeURIComponent(name)}`;
    const answer = await this.#peer.json({ ...post(payload), path, timeoutMs, signal, once: true });
    return (answer as { readonly result?: unknown } | undefined)?.result ?? null;
  }

  /** Opens a stream: a connection that carries another protocol than HTTP. */
  async upgrade(protocol: string, from: Identity, options: StreamOptions): Promise<Stream> {
    const { socket, head, headers } = await this.#peer.upgrade(upgradeToken(protocol), {
      ...options,
      path: streamPath(protocol),
      headers: callerHeader(this.#cluster, from),
    });
    prepareSocket(socket);
    const { task } = this.#peer;
    const answering = String(headers[TASK_HEADER]);
    // The address may belong to another task by now.
    if (task !== undefined && answering !== task) {
      socket.destroy();
      throw new PeerError('SHOAL_UNREACHABLE', 'other', `${this.label} answers as ${answering}`, { task });
    }
    const { versions } = decodeVersions(String(headers[VERSIONS_HEADER] ?? ''));
    return { socket, head, label: this.label, versions };
  }

  async #ask(
    path: string,
    { task, incarnation, nonce }: Identity,
    payload: unknown,
    options: AgentCallOptions & { readonly timeoutMs: number; readonly once: boolean },
  ): Promise<unknown> {
    const body = { cluster: this.#cluster, from: { task, incarnation, nonce }, payload };
    const answer = await this.#peer.json({ ...post(body), path, ...options });
    return (answer as { readonly result?: unknown } | undefined)?.result ?? null;
  }

  close(): void {
    this.#peer.close();
  }

  #get(
    path: string,
    { timeoutMs = TIMEOUT_MS, signal, once = false }: AgentCallOptions & { readonly once?: boolean },
  ) {
    return this.#peer.json({ path, timeoutMs, signal, once });
  }

  #checked<S extends Parameters<typeof validated>[0]>(schema: S, value: unknown) {
    return validated(schema, value, `response of ${this.label}`);
  }
}

function post(body: unknown) {
  return { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
}
