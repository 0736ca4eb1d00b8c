/**
 * A gRPC server over Node's HTTP/2: it routes streams to methods, checks credentials, and bounds what clients can take:
 * connections, streams, bytes and silence. See docs/design/035-serving-grpc.md for why it is not a library.
 */
import {
  constants,
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { listenError } from '../../../distributed/cluster/agent/listen-error.js';
import type { Address } from '../../../distributed/cluster/spec/address.js';
import { sameSecret } from '../../../distributed/cluster/spec/security.js';
import { ServingError } from '../status.js';
import { Call } from './call.js';
import { ByteBudget } from './frames.js';
import type { RpcMethod } from './methods.js';

export interface GrpcLimits {
  /** The largest message of a client; default: 128 MiB. */
  readonly maxMessageBytes: number;
  /** The bytes of all requests that are being received or answered; default: 512 MiB. */
  readonly maxTotalBytes: number;
  /** Default: 10000. */
  readonly maxConnections: number;
  /** Calls at a time per connection; clients queue further ones. Default: 1000. */
  readonly maxStreams: number;
  /** How long a client may send nothing in the middle of a request, or read nothing of an answer; default: 60 s. */
  readonly maxSilenceMs: number;
  /** A connection without traffic for this long is pinged, and closed without an answer; default: 60 s. */
  readonly keepaliveMs: number;
  /** How long the answer to that ping may take; default: 20 s. */
  readonly pingAnswerMs: number;
}

const MIB = 1 << 20;
const IN_USE = 'stop that process, or choose another port with --port';

export const GRPC_LIMITS: GrpcLimits = {
  maxMessageBytes: 128 * MIB,
  maxTotalBytes: 512 * MIB,
  maxConnections: 10_000,
  maxStreams: 1000,
  maxSilenceMs: 60_000,
  keepaliveMs: 60_000,
  pingAnswerMs: 20_000,
};

export interface GrpcServerOptions {
  readonly methods: ReadonlyMap<string, RpcMethod>;
  /** Port 0: any free one. */
  readonly listen: Address;
  readonly tls?: TlsOptions | undefined;
  /** The token that calls carry in `authorization: Bearer TOKEN`; default: none is needed. */
  readonly token?: string | undefined;
  readonly limits?: Partial<GrpcLimits>;
}

/** What a client may send before it must wait for the server; the default of HTTP/2, 64 KB, costs a round trip for each. */
const STREAM_WINDOW = 4 * MIB;
const CONNECTION_WINDOW = 16 * MIB;
/** Node closes connections whose clients reset many streams; a deadline that passes resets one. */
const RESETS = { streamResetBurst: 20_000, streamResetRate: 5000 };

export class GrpcServer {
  readonly #server: Http2Server;
  readonly #options: GrpcServerOptions;
  readonly #limits: GrpcLimits;
  readonly #budget: ByteBudget;
  readonly #sessions = new Set<ServerHttp2Session>();
  /** Calls that end only when their client wants: watches of health, reflection. */
  readonly #streams = new Set<Call>();
  #isClosing = false;

  private constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#limits = { ...GRPC_LIMITS, ...options.limits };
    const { maxMessageBytes, maxTotalBytes, maxStreams, maxConnections } = this.#limits;
    this.#budget = new ByteBudget(maxTotalBytes);
    const settings = {
      settings: { initialWindowSize: STREAM_WINDOW, maxConcurrentStreams: maxStreams },
      // In MB; Node's default would refuse streams while one large message arrives.
      maxSessionMemory: Math.ceil((2 * maxMessageBytes + CONNECTION_WINDOW) / 1e6),
      ...RESETS,
    };
    this.#server = options.tls
      ? createSecureServer({ ...settings, ...options.tls, allowHTTP1: false })
      : createServer(settings);
    this.#server.maxConnections = maxConnections;
    this.#server.on('session', (session) => this.#admit(session));
    this.#server.on('stream', (stream, headers) => this.#open(stream, headers));
    // What fails on a connection fails its calls; a client that speaks no HTTP/2 or no TLS is disconnected.
    this.#server.on('sessionError', () => {});
  }

  /** Resolves when the server listens. */
  static async start(options: GrpcServerOptions): Promise<GrpcServer> {
    const started = new GrpcServer(options);
    const { listen } = options;
    await new Promise<void>((done, fail) => {
      const server = started.#server;
      server.once('error', (cause) => fail(listenError('the gRPC API', listen, cause, { inUse: IN_USE })));
      server.listen({ ...listen, backlog: 511 }, () => {
        // A later error concerns one connection; its client notices.
        server.removeAllListeners('error').on('error', () => {});
        done();
      });
    });
    return started;
  }

  get address(): Address {
    return { host: this.#options.listen.host, port: (this.#server.address() as AddressInfo).port };
  }

  /** The bytes of requests that are being received or answered. */
  get bytesHeld(): number {
    return this.#budget.used;
  }

  get connections(): number {
    return this.#sessions.size;
  }

  /** Takes no more calls, lets those that run end for `graceMs`, and disconnects all clients. */
  async close(graceMs = 0): Promise<void> {
    this.#isClosing = true;
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    for (const session of this.#sessions) session.close();
    for (const call of this.#streams)
      call.fail(new ServingError('UNAVAILABLE', 'The server is shutting down'));
    const timer = setTimeout(() => {
      for (const session of this.#sessions) session.destroy();
    }, graceMs);
    await closed;
    clearTimeout(timer);
  }

  #admit(session: ServerHttp2Session): void {
    this.#sessions.add(session);
    session.once('close', () => this.#sessions.delete(session));
    // Reported as `sessionError` and by the end of its streams.
    session.on('error', () => session.destroy());
    if (this.#isClosing) {
      session.close();
      return;
    }
    session.setLocalWindowSize(CONNECTION_WINDOW);
    session.on('timeout', () => this.#ping(session));
    session.setTimeout(this.#limits.keepaliveMs);
  }

  /** Closes a connection whose client is gone without having said so. */
  #ping(session: ServerHttp2Session): void {
    if (session.destroyed) return;
    const { pingAnswerMs, keepaliveMs } = this.#limits;
    const timer = setTimeout(() => session.destroy(), pingAnswerMs);
    // Called when the connection is lost, too.
    const isSent = session.ping((error) => {
      clearTimeout(timer);
      // The answer is no traffic to Node: its timer has to be started again.
      if (!error) session.setTimeout(keepaliveMs);
    });
    if (!isSent) session.destroy();
  }

  #open(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    // The end of the stream is what the call sees.
    stream.on('error', () => {});
    if (!String(headers['content-type']).startsWith('application/grpc')) {
      stream.respond({ ':status': 415 }, { endStream: true });
      stream.close(constants.NGHTTP2_NO_ERROR);
      return;
    }
    let call: Call;
    try {
      call = new Call(stream, headers, this.#limits, this.#budget);
    } catch (error) {
      new Call(stream, {}, this.#limits, this.#budget).fail(error);
      return;
    }
    const path = String(headers[':path']);
    const method = this.#options.methods.get(path);
    if (!method) call.fail(new ServingError('UNIMPLEMENTED', `Method not found: ${path}`));
    else if (!method.isOpen && !this.#isAuthorised(headers))
      call.fail(new ServingError('UNAUTHENTICATED', 'The call has no valid token in its metadata'));
    else if (method.kind === 'stream') this.#openStream(call, method.open);
    else answerOnce(call, method);
  }

  #openStream(call: Call, open: (call: Call) => void): void {
    this.#streams.add(call);
    call.afterEnd(() => this.#streams.delete(call));
    open(call);
  }

  #isAuthorised({ authorization = '' }: IncomingHttpHeaders): boolean {
    const { token } = this.#options;
    return token === undefined || sameSecret(authorization, `Bearer ${token}`);
  }
}

function answerOnce(call: Call, { answer }: Extract<RpcMethod, { kind: 'unary' }>): void {
  let request: Buffer | undefined;
  const run = async (message: Buffer) => {
    try {
      call.end(await answer(message, call));
    } catch (error) {
      call.fail(error);
    }
  };
  call.receive(
    (message) => {
      if (request) call.fail(new ServingError('UNIMPLEMENTED', 'A unary method has one message'));
      request = message;
      call.hold(message.length);
    },
    () => {
      if (request) void run(request);
      else call.fail(new ServingError('UNIMPLEMENTED', 'The client sent no message'));
    },
  );
}
