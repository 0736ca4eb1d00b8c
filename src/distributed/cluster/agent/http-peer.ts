/**
 * HTTP client for one peer: keep-alive connections, deadlines, and a PeerError for every failure, which names the
 * peer and the kind of failure for membership.
 */
import { once, setMaxListeners } from 'node:events';
import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from 'node:http';
import { request as httpsRequest, Agent as TlsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { backoffMs } from '../../../base/async/backoff.js';
import { abortError, sleep, throwIfAborted } from '../../../base/async/deadline.js';
import { encodeVersions, ownVersions, VERSIONS_HEADER } from '../../../base/bytes/versions.js';
import { type ErrorDetails, messageOf, type ShoalCode, ShoalError } from '../../../base/errors/errors.js';
import type { Failure } from '../membership/types.js';
import { parseAddress } from '../spec/address.js';
import { clientTls, credentials, type Security } from '../spec/security.js';
import type { TaskId } from '../spec/task-id.js';
import type { Traffic } from './traffic.js';
import { decodeError } from './wire.js';

/** A failed call to a peer. */
export class PeerError extends ShoalError {
  override readonly name = 'PeerError';
  readonly failure: Failure;
  /** The HTTP status of a response without an error body. */
  readonly status: number | undefined;

  constructor(code: ShoalCode, failure: Failure, message: string, details: ErrorDetails, status?: number) {
    super(code, message, details);
    this.failure = failure;
    this.status = status;
  }
}

export interface PeerOptions {
  readonly address: string;
  /** The task expected at the address; under TLS the peer's certificate must be valid for it. */
  readonly task?: TaskId;
  /** What the peer is called in messages; default: `agent`. */
  readonly noun?: string;
  readonly security: Security;
  /** The task that makes the calls; default: none, as for an operator outside the cluster. */
  readonly caller?: TaskId;
  readonly maxSockets?: number;
  /** The peer or the network closed a connection. */
  readonly onDisconnect?: () => void;
  /** Counts the bytes of the connections; default: none. */
  readonly traffic?: Traffic;
}

export interface PeerCallOptions {
  readonly method?: string;
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | AsyncIterable<Uint8Array>;
  /** Until the response headers arrive; for a streamed body, the longest time without progress. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

type UpgradeOptions = Pick<PeerCallOptions, 'path' | 'headers' | 'timeoutMs' | 'signal'>;

interface Upgraded {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly headers: IncomingHttpHeaders;
}

const REFUSED = new Set(['ECONNREFUSED']);
const RESET = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED']);
const TIMEOUT = new Set(['ETIMEDOUT', 'ESOCKETTIMEDOUT']);
const CREDENTIALS = /^(ERR_SSL|ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)/;

export class HttpPeer {
  readonly address: string;
  readonly task: TaskId | undefined;
  readonly #options: PeerOptions;
  readonly #agent: Agent;
  readonly #watched = new WeakSet<Socket>();
  readonly #ended = new WeakSet<Socket>();
  #closed = false;

  constructor(options: PeerOptions) {
    this.#options = options;
    this.address = options.address;
    this.task = options.task;
    const { security, maxSockets = 8 } = options;
    const pool = { keepAlive: true, maxSockets, maxFreeSockets: maxSockets };
    this.#agent = security.kind === 'tls' ? new TlsAgent(pool) : new Agent(pool);
  }

  /** The peer's name and address, for messages. */
  get label(): string {
    const place = `${this.#options.noun ?? 'agent'} ${this.address}`;
    return this.task === undefined ? place : `${this.task} (${place})`;
  }

  close(): void {
    this.#closed = true;
    this.#agent.destroy();
  }

  /** One call. Returns a response with a success status, 412 or 416; the caller reads its body. */
  async call(options: PeerCallOptions): Promise<IncomingMessage> {
    throwIfAborted(`a call to ${this.label}`, options.signal);
    const answer = await this.#sendUntilAccepted(options);
    const status = answer.statusCode ?? 0;
    if (status < 400 || status === 412 || status === 416) return answer;
    throw await this.#errorOf(answer, options.timeoutMs);
  }

  /** The error in a response. */
  async #errorOf(answer: IncomingMessage, timeoutMs: number): Promise<ShoalError> {
    const status = answer.statusCode ?? 0;
    const body = await readText(answer, 1 << 20, timeoutMs).catch(() => '');
    if (status === 401) {
      return new PeerError(
        'SHOAL_FORBIDDEN',
        'other',
        `${this.label} does not accept the credentials of this task`,
        {
          hint: 'all tasks of a cluster need the same cluster token, or certificates from the same authority',
          task: this.task,
        },
      );
    }
    const sent = decodeError(body, this.label, { task: this.task });
    const details = { task: this.task };
    return (
      sent ??
      new PeerError('SHOAL_UNREACHABLE', 'other', `${this.label} answered HTTP ${status}`, details, status)
    );
  }

  /**
   * Asks the peer to continue with another protocol. Returns the socket, which then belongs to the caller, bytes that
   * the peer has sent already, and the headers of the response.
   */
  async upgrade(protocol: string, { path, headers, timeoutMs, signal }: UpgradeOptions): Promise<Upgraded> {
    throwIfAborted(`a call to ${this.label}`, signal);
    const upgrade = { connection: 'Upgrade', upgrade: protocol };
    const request = this.#request({ path, headers: { ...headers, ...upgrade } }, false);
    const late = () => request.destroy(this.#unreachable('timeout', `did not answer within ${timeoutMs} ms`));
    const timer = setTimeout(late, timeoutMs);
    const abort = () => request.destroy(abortError(`a call to ${this.label}`, signal!));
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const answer = await new Promise<Upgraded | IncomingMessage>((resolve, reject) => {
        request.on('error', reject);
        request.on('response', resolve);
        request.on('upgrade', ({ headers }, socket, head) => resolve({ socket, head, headers }));
        request.end();
      });
      if ('head' in answer) {
        if (answer.headers.upgrade === protocol) return answer;
        answer.socket.destroy();
        throw this.#unreachable('other', `answers with protocol ${answer.headers.upgrade}, not ${protocol}`);
      }
      if ((answer.statusCode ?? 0) >= 400) throw await this.#errorOf(answer, timeoutMs);
      answer.destroy();
      throw this.#unreachable('other', `does not support the protocol ${protocol}`);
    } catch (error) {
      throw this.#failed(error as NodeJS.ErrnoException);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /**
   * Resends a request that the peer rejected with 429, until the call's deadline. The peer has not processed such a
   * request, so resending is safe for requests that are not idempotent too.
   */
  async #sendUntilAccepted(options: PeerCallOptions): Promise<IncomingMessage> {
    const end = performance.now() + options.timeoutMs;
    for (;;) {
      const answer = await this.#send(options);
      const waitMs = 1000 * Number(answer.headers['retry-after'] ?? Number.NaN);
      const mayRepeat = options.body === undefined || typeof options.body === 'string';
      if (answer.statusCode !== 429 || !mayRepeat || !(performance.now() + waitMs < end)) return answer;
      answer.resume();
      await sleep(waitMs, options.signal);
    }
  }

  /** Retries transient failures. For idempotent calls. */
  async callAgain(options: PeerCallOptions, attempts = 3): Promise<IncomingMessage> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.call(options);
      } catch (error) {
        if (attempt + 1 >= attempts || !isTransient(error)) throw error;
        await sleep(backoffMs(attempt, { baseMs: 50, maxMs: 2000 }), options.signal);
      }
    }
  }

  async json(
    options: PeerCallOptions & { readonly once?: boolean; readonly maxBytes?: number },
  ): Promise<unknown> {
    const answer = await (options.once ? this.call(options) : this.callAgain(options));
    const { maxBytes = 256 << 20, timeoutMs } = options;
    try {
      const text = await readText(answer, maxBytes, timeoutMs);
      return text === '' ? undefined : JSON.parse(text);
    } catch (cause) {
      throw this.#unreachable('reset', `sent an incomplete response: ${messageOf(cause)}`, cause);
    }
  }

  #unreachable(failure: Failure, what: string, cause?: unknown): PeerError {
    const code = failure === 'timeout' ? 'SHOAL_TIMEOUT' : 'SHOAL_UNREACHABLE';
    return new PeerError(code, failure, `${this.label} ${what}`, { task: this.task, cause });
  }

  #failed(cause: NodeJS.ErrnoException): ShoalError {
    if (cause instanceof ShoalError) return cause;
    const code = cause.code ?? '';
    const message = messageOf(cause);
    if (REFUSED.has(code))
      return this.#unreachable('refused', 'refuses connections: no process is listening', cause);
    if (RESET.has(code) || message === 'socket hang up')
      return this.#unreachable('reset', 'closed the connection', cause);
    if (TIMEOUT.has(code)) return this.#unreachable('timeout', 'does not answer', cause);
    if (CREDENTIALS.test(code) || message.startsWith("the peer's certificate")) {
      return new PeerError(
        'SHOAL_FORBIDDEN',
        'other',
        `${this.label}: TLS certificate verification failed: ${message}`,
        {
          hint: 'issue both certificates with `shoal certs issue` from one authority; check that neither has expired',
          task: this.task,
          cause,
        },
      );
    }
    return this.#unreachable('other', `cannot be reached: ${message}`, cause);
  }

  #watch(socket: Socket, onDisconnect: () => void): void {
    if (this.#watched.has(socket)) return;
    this.#watched.add(socket);
    socket.once('close', () => {
      if (!this.#closed && !this.#ended.has(socket)) onDisconnect();
    });
  }

  /** A request on a connection of the pool, or, without a pool, on one of its own. */
  #request(
    options: Pick<PeerCallOptions, 'method' | 'path' | 'headers'>,
    pool: Agent | false,
  ): ClientRequest {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', `the connection to ${this.label} is closed`);
    const { host, port } = parseAddress(this.address);
    const { security, traffic, caller } = this.#options;
    const open = security.kind === 'tls' ? httpsRequest : httpRequest;
    const request = open({
      host,
      port,
      ...options,
      agent: pool,
      // Read for each request, so that new connections use a renewed certificate.
      ...(security.kind === 'tls' && clientTls(security, this.task)),
      headers: {
        ...credentials(security),
        [VERSIONS_HEADER]: encodeVersions(ownVersions(caller)),
        ...options.headers,
      },
    });
    if (traffic) request.once('socket', (socket) => traffic.watch(socket));
    return request;
  }

  async #send({
    method = 'GET',
    path,
    headers,
    body,
    timeoutMs,
    signal,
  }: PeerCallOptions): Promise<IncomingMessage> {
    const { onDisconnect } = this.#options;
    const length = typeof body === 'string' ? { 'content-length': Buffer.byteLength(body) } : {};
    const request = this.#request({ method, path, headers: { ...length, ...headers } }, this.#agent);
    const streams = body !== undefined && typeof body !== 'string';
    const end = (why: Error) => {
      if (request.socket) this.#ended.add(request.socket);
      request.destroy(why);
    };
    const late = () => end(this.#unreachable('timeout', `did not answer within ${timeoutMs} ms`));
    const timer = streams ? undefined : setTimeout(late, timeoutMs);
    if (streams) request.setTimeout(timeoutMs, late);
    const abort = () => end(abortError(`a call to ${this.label}`, signal!));
    // A broadcast shares one signal between all peers, each with a listener; all are removed below.
    if (signal) setMaxListeners(0, signal);
    signal?.addEventListener('abort', abort, { once: true });
    if (onDisconnect !== undefined) request.once('socket', (socket) => this.#watch(socket, onDisconnect));
    // A failure rejects `answered`, or ends the response body.
    request.on('error', () => {});
    try {
      const answered = once(request, 'response') as Promise<[IncomingMessage]>;
      if (streams) await sendBody(request, body, answered);
      else request.end(body);
      const [answer] = await answered;
      // The signal stays attached until the response body has been read.
      answer.once('close', () => {
        signal?.removeEventListener('abort', abort);
        // A connection with a partially sent request body cannot be reused.
        if (!request.writableEnded) request.destroy();
      });
      return answer;
    } catch (error) {
      signal?.removeEventListener('abort', abort);
      throw this.#failed(error as NodeJS.ErrnoException);
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Sends a body chunk by chunk. An early response, such as an error for a full disk, stops it. The next chunk is
 * requested only after the previous one was written, since that may reuse its memory.
 */
async function sendBody(
  request: ReturnType<typeof httpRequest>,
  body: AsyncIterable<Uint8Array>,
  answered: Promise<unknown>,
): Promise<void> {
  const early = answered.then(() => 'early' as const);
  const over = new Promise<never>((_, reject) => {
    const stop = () => reject(new Error('the peer stopped reading the request body'));
    early.then(stop, stop);
    request.once('close', stop);
  });
  over.catch(() => {});
  const sent = (async () => {
    for await (const chunk of body) await Promise.race([written(request, chunk), over]);
    request.end();
  })();
  try {
    await Promise.race([sent, early]);
  } catch (error) {
    // A response that is about to arrive is more informative than a broken pipe.
    const grace = new Promise<'none'>((done) => setTimeout(done, 200, 'none').unref());
    if ((await Promise.race([early.catch(() => 'none' as const), grace])) === 'none') {
      request.destroy();
      throw error;
    }
  }
  sent.catch(() => {});
}

/** Resolves when the operating system has taken the chunk. */
function written(request: ReturnType<typeof httpRequest>, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    request.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** Whether a retry may succeed. */
export function isTransient(error: unknown): boolean {
  if (error instanceof PeerError) {
    // A client error without a body, such as a 404 response to HEAD, is permanent.
    if (error.status !== undefined && error.status < 500) return false;
    return error.failure !== 'other' || error.code === 'SHOAL_UNREACHABLE';
  }
  return error instanceof ShoalError && error.code === 'SHOAL_UNREACHABLE';
}

async function readText(answer: IncomingMessage, maxBytes: number, timeoutMs: number): Promise<string> {
  const timer = setTimeout(
    () =>
      answer.destroy(new ShoalError('SHOAL_TIMEOUT', `the response did not complete within ${timeoutMs} ms`)),
    timeoutMs,
  );
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      size += chunk.byteLength;
      if (size > maxBytes)
        throw new ShoalError('SHOAL_CORRUPT', `the response is larger than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  } finally {
    clearTimeout(timer);
  }
}
