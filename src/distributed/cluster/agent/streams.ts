/**
 * Streams: connections between tasks that begin as a request to the agent and then carry another protocol. The request
 * (`GET /streams/PROTOCOL` with `Upgrade: shoal-PROTOCOL`) is checked like every other one; from the response on, the
 * socket belongs to the handler of the protocol, without HTTP's time limits.
 */

import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  decodeVersions,
  encodeVersions,
  ownVersions,
  type Speaker,
  VERSIONS_HEADER,
} from '../../../base/bytes/versions.js';
import { describeError, invalid, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Identity } from '../membership/map.js';
import type { TaskId } from '../spec/task-id.js';
import { callerOf } from './blobs/blob-access.js';
import type { Admission, Admissions } from './calls/admissions.js';
import { OrderName, validated } from './wire.js';

/** The header of the response that names the responding task. */
export const TASK_HEADER = 'x-shoal-task';
/** A host that disappears leaves no other trace on a connection without traffic. */
const KEEP_ALIVE_MS = 30_000;

export const streamPath = (protocol: string): string => `/streams/${encodeURIComponent(protocol)}`;
export const upgradeToken = (protocol: string): string => `shoal-${protocol}`;

export interface StreamContext {
  readonly from: Identity;
  /** The peer's name and address, for messages. */
  readonly label: string;
  /** Bytes of the peer that were read with the request. */
  readonly head: Buffer;
  /** The versions that the peer speaks. */
  readonly versions: Speaker['versions'];
}

/**
 * Takes over the socket of a stream. A promise that it returns settles when the stream is closed and everything that
 * came over it has ended: a later process of the caller's task waits for that.
 */
export type StreamHandler = (socket: Duplex, context: StreamContext) => Promise<void> | void;

export interface StreamsOptions {
  /** Throws when the caller is not a task of this cluster, or its certificate is not valid for the task. */
  readonly claim: (request: IncomingMessage, cluster: string, task: TaskId) => void;
  /** Why a caller is refused; undefined when it is accepted. */
  readonly judge: (from: Identity) => string | undefined;
  readonly admissions: Admissions;
  readonly self: () => TaskId;
  readonly maxStreams: number;
  readonly onNotice?: Log;
}

export class Streams {
  readonly #options: StreamsOptions;
  readonly #handlers = new Map<string, StreamHandler>();
  readonly #open = new Set<Duplex>();
  readonly #refused = new Set<Duplex>();
  #closed = false;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  /** Registers the handler of a protocol; returns the function that removes it. */
  handle(protocol: string, handler: StreamHandler): () => void {
    validated(OrderName, protocol, 'stream protocol');
    if (this.#handlers.has(protocol)) throw invalid(`stream protocol ${protocol} already has a handler`);
    this.#handlers.set(protocol, handler);
    return () => void this.#handlers.delete(protocol);
  }

  /** Opens a stream for an authorized request, or throws why not. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const [, name = ''] = /^\/streams\/([^/?]+)$/.exec(request.url ?? '') ?? [];
    if (name === '') throw new ShoalError('SHOAL_NOT_FOUND', 'no such route');
    const protocol = validated(OrderName, name, 'stream protocol');
    if (request.headers.upgrade !== upgradeToken(protocol)) {
      throw invalid(`stream ${protocol} needs the header Upgrade: ${upgradeToken(protocol)}`);
    }
    const from = this.#callerOf(request, protocol);
    const handler = this.#handlers.get(protocol);
    if (handler === undefined) {
      throw new ShoalError('SHOAL_NOT_FOUND', `this task has no handler for stream ${protocol}`);
    }
    if (this.#closed) throw new ShoalError('SHOAL_UNREACHABLE', 'this task is closing');
    if (this.#open.size >= this.#options.maxStreams) {
      throw new ShoalError(
        'SHOAL_UNREACHABLE',
        `this task has ${this.#open.size} streams, and accepts no more`,
      );
    }
    const response = [
      'HTTP/1.1 101 Switching Protocols',
      'Connection: Upgrade',
      `Upgrade: ${upgradeToken(protocol)}`,
      `${TASK_HEADER}: ${this.#options.self()}`,
      `${VERSIONS_HEADER}: ${encodeVersions(ownVersions(this.#options.self()))}`,
    ];
    this.#open.add(socket);
    const closed = new Promise<void>((resolve) => socket.once('close', resolve));
    void closed.then(() => this.#open.delete(socket));
    prepareSocket(socket);
    socket.write(`${response.join('\r\n')}\r\n\r\n`);
    const { remoteAddress, remotePort } = request.socket;
    const label = `${from.task} (from ${remoteAddress}:${remotePort})`;
    const work = this.#options.admissions.admit(from, 'stream', `stream ${protocol}`);
    work.hold(closed);
    work.signal.addEventListener('abort', () => socket.destroy(), { once: true });
    const { versions } = decodeVersions(String(request.headers[VERSIONS_HEADER] ?? ''));
    void this.#serve(handler, socket, { from, label, head, versions }, work)
      .catch((error: unknown) => {
        this.#options.onNotice?.(`stream ${protocol} of ${label} failed: ${describeError(error)}`, 'warn');
        socket.destroy();
      })
      .finally(() => work.release());
  }

  /** Nothing is read from the socket until the work of the caller's predecessors is over. */
  async #serve(
    handler: StreamHandler,
    socket: Duplex,
    context: StreamContext,
    { ready, hold }: Admission,
  ): Promise<void> {
    if (ready !== undefined) await ready;
    if (socket.destroyed) return;
    const ended = handler(socket, context);
    if (ended === undefined) return;
    hold(ended);
    await ended;
  }

  /** The response for a request that opens no stream. Its socket closes when the response is sent. */
  refuse(request: IncomingMessage, socket: Duplex): ServerResponse {
    this.#refused.add(socket);
    socket.once('close', () => this.#refused.delete(socket)).on('error', () => {});
    const response = new ServerResponse(request);
    response.assignSocket(socket as Socket);
    response.once('finish', () => (socket as Socket).destroySoon());
    return response;
  }

  close(): void {
    this.#closed = true;
    for (const socket of [...this.#open, ...this.#refused]) socket.destroy();
  }

  #callerOf(request: IncomingMessage, protocol: string): Identity {
    const caller = callerOf(request);
    if (caller === undefined) {
      throw new ShoalError('SHOAL_FORBIDDEN', `stream ${protocol} is refused: the caller identifies no task`);
    }
    this.#options.claim(request, caller.cluster, caller.from.task);
    const refused = this.#options.judge(caller.from);
    if (refused !== undefined) {
      throw new ShoalError('SHOAL_FORBIDDEN', `stream ${protocol} is refused: ${refused}`);
    }
    return caller.from;
  }
}

/** Settings of both ends of a stream. Its owner listens for errors from when it has the socket. */
export function prepareSocket(socket: Duplex): void {
  const tcp = socket as Socket;
  tcp.setNoDelay(true);
  tcp.setTimeout(0);
  tcp.setKeepAlive(true, KEEP_ALIVE_MS);
  socket.on('error', () => {});
}
