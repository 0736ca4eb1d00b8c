/**
 * The port on which a serving process accepts versions. A SavedModel is a program, so only authenticated publishers may
 * send one: holders of the token, or of a certificate of an operator or of a job's chief. Without either, the port
 * listens on loopback.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { TLSSocket } from 'node:tls';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { listenError } from '../../../distributed/cluster/agent/listen-error.js';
import { encodeError, validated } from '../../../distributed/cluster/agent/wire.js';
import type { Address } from '../../../distributed/cluster/spec/address.js';
import {
  isAuthorised,
  namesFor,
  peerOf,
  type Security,
  serverTls,
} from '../../../distributed/cluster/spec/security.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import type { Range } from './publication.js';
import type { Receiver } from './receiver.js';
import { type BeginReply, BeginSchema, PREFIX, RANGE_BYTES } from './wire.js';

export interface PublishPortOptions {
  readonly receiver: Receiver;
  readonly listen: Address;
  readonly security: Security;
}

const LIMITS = {
  headersTimeout: 10_000,
  /** For a request with its body: a range, or a list of files. */
  requestTimeout: 60_000,
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: 75_000,
  maxHeaderSize: 16_384,
};
const MAX_CONNECTIONS = 256;
/** Ranges in memory at a time, of all publications and of each: slow ones leave room for others. */
const MAX_RANGES = { all: 16, each: 4 };
const MAX_JSON_BYTES = 8 << 20;

/**
 * Whose certificates may publish: of an operator, of the chief, of a worker 0 that is the chief, or one for all tasks. One
 * for all workers is not that of worker 0.
 */
const PUBLISHERS = new Set(['operator', ...namesFor(taskId('chief', 0)), taskId('worker', 0)]);

export class PublishPort {
  readonly address: Address;
  readonly #server: Server;

  private constructor(server: Server, address: Address) {
    this.#server = server;
    this.address = address;
  }

  static async listen({ receiver, listen, security }: PublishPortOptions): Promise<PublishPort> {
    const budget: Budget = new Map();
    const handle = (request: IncomingMessage, response: ServerResponse): void => {
      answer(receiver, security, budget, request).then(
        (value) => send(response, 200, JSON.stringify(value ?? {})),
        (error: unknown) => {
          const { status, body } = encodeError(error);
          // Without a close: a publisher that is still sending would see a broken connection, not the answer.
          if (error instanceof Busy) send(response, 429, '', { 'retry-after': '1' });
          // What is left of the body is not read.
          else send(response, error instanceof Denied ? 401 : status, body, { connection: 'close' });
        },
      );
    };
    const server: Server =
      security.kind === 'tls'
        ? createTlsServer({ ...LIMITS, ...serverTls(security) }, handle)
        : createServer(LIMITS, handle);
    server.maxConnections = MAX_CONNECTIONS;
    await new Promise<void>((done, fail) => {
      const inUse = 'stop that process, or choose another port with --publish_port';
      server.once('error', (cause) => fail(listenError('the port for versions', listen, cause, { inUse })));
      server.listen(listen, () => {
        // A later error concerns one connection; its publisher notices.
        server.removeAllListeners('error').on('error', () => {});
        done();
      });
    });
    return new PublishPort(server, { host: listen.host, port: (server.address() as AddressInfo).port });
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Ranges under way, by the publication. */
type Budget = Map<string, number>;

class Busy extends Error {
  override readonly name = 'Busy';
}

class Denied extends ShoalError {
  override readonly name = 'Denied';
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body);
}

async function answer(
  receiver: Receiver,
  security: Security,
  budget: Budget,
  request: IncomingMessage,
): Promise<unknown> {
  if (!mayPublish(security, request)) throw new Denied('SHOAL_FORBIDDEN', 'credentials are missing or wrong');
  const url = new URL(request.url ?? '', 'http://localhost');
  const method = request.method ?? '';
  if (!url.pathname.startsWith(PREFIX)) throw noRoute(request);
  const [, id, action] = url.pathname.slice(PREFIX.length).split('/');
  if (id === undefined) {
    if (method === 'GET') return { models: await receiver.report() };
    if (method === 'POST') return begin(receiver, request);
    throw noRoute(request);
  }
  const publication = receiver.publication(id);
  switch (`${method} ${action ?? ''}`) {
    case 'GET ':
      break;
    case 'PUT range': {
      const range = rangeOf(url);
      const length = publication.lengthOf(range);
      await withinBudget(budget, id, async () => publication.write(range, await readBytes(request, length)));
      break;
    }
    case 'POST prepare':
      publication.prepare();
      break;
    case 'POST commit':
      publication.commit();
      break;
    case 'DELETE ':
      await publication.abort(`${publication.by} gave up`);
      break;
    default:
      throw noRoute(request);
  }
  return publication.state();
}

async function withinBudget(budget: Budget, id: string, work: () => Promise<void>): Promise<void> {
  const own = budget.get(id) ?? 0;
  const all = [...budget.values()].reduce((sum, one) => sum + one, 0);
  if (own >= MAX_RANGES.each || all >= MAX_RANGES.all) throw new Busy('too many ranges arrive');
  budget.set(id, own + 1);
  try {
    await work();
  } finally {
    const left = (budget.get(id) ?? 1) - 1;
    if (left > 0) budget.set(id, left);
    else budget.delete(id);
  }
}

/** A publisher that has gone meanwhile does not know the id: nobody else could end the publication. */
async function begin(receiver: Receiver, request: IncomingMessage): Promise<BeginReply> {
  const reply = await receiver.begin(validated(BeginSchema, await readJson(request), 'publication'));
  if (reply.outcome === 'open' && request.socket.destroyed)
    await receiver.publication(reply.id).abort('its publisher has gone');
  return reply;
}

function mayPublish(security: Security, request: IncomingMessage): boolean {
  if (!isAuthorised(security, request)) return false;
  return !(request.socket instanceof TLSSocket) || PUBLISHERS.has(peerOf(request));
}

const noRoute = ({ method, url }: IncomingMessage): ShoalError =>
  new ShoalError('SHOAL_NOT_FOUND', `there is no ${method} ${url}`);

function rangeOf({ searchParams }: URL): Range {
  const number = (name: string): number => {
    const text = searchParams.get(name) ?? '';
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isNaN(value)) throw invalid(`the range has no ${name}`);
    return value;
  };
  return { file: number('file'), offset: number('offset'), crc32c: number('crc32c') };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const bytes = await readAtMost(request, MAX_JSON_BYTES);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw invalid('the request is not JSON', { cause });
  }
}

async function readBytes(request: IncomingMessage, length: number): Promise<Buffer> {
  const bytes = await readAtMost(request, RANGE_BYTES);
  if (bytes.byteLength === length) return bytes;
  throw new ShoalError('SHOAL_CORRUPT', `a range of ${length} bytes arrived with ${bytes.byteLength}`);
}

async function readAtMost(request: IncomingMessage, limit: number): Promise<Buffer> {
  const tooLarge = () => invalid(`the body of a request is larger than ${limit} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > limit) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}
