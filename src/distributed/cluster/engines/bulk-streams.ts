/**
 * The connections of bulk channels between tasks: streams of the agent, checked like every other one, that begin with the
 * token of a connection of the same process.
 */
import { randomBytes } from 'node:crypto';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { withDeadline } from '../../../base/async/deadline.js';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  closeDescriptor,
  duplicateOf,
  hasDescriptors,
} from '../../../tensorflow/native/threads/descriptors.js';
import type { BulkListener, BulkOffer } from '../../engine/remote/bulk-opening.js';
import type { BulkChannel } from '../../engine/wire/bulk-channel.js';
import type { StreamContext } from '../agent/streams.js';
import type { Identity } from '../membership/map.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';

const PROTOCOL = 'bulk';
const TOKEN_BYTES = 32;
const OPEN_MS = 5000;

interface Expected {
  readonly nonce: string;
  readonly attach: (descriptor: number) => BulkChannel | undefined;
  readonly onFailed: () => void;
}

/** Whether tensors of this connection may take a bulk channel: encrypted bytes have to pass through Node. */
export const isUnencrypted = (socket: Duplex): socket is Socket =>
  hasDescriptors && socket instanceof Socket && (socket as TLSSocket).encrypted !== true;

export class BulkStreams {
  readonly #task: Pick<ClusterTask, 'openStream' | 'onStream' | 'traffic'>;
  readonly #expected = new Map<string, Expected>();
  readonly #stopServing: () => void;

  constructor(task: Pick<ClusterTask, 'openStream' | 'onStream' | 'traffic'>) {
    this.#task = task;
    this.#stopServing = task.onStream(PROTOCOL, (socket, context) => this.#serve(socket, context));
  }

  /** Expects bulk channels of one process. */
  listenerFor({ nonce }: Identity): BulkListener {
    return {
      offer: (attach, onFailed): BulkOffer => {
        const token = randomBytes(TOKEN_BYTES);
        const key = token.toString('hex');
        this.#expected.set(key, { nonce, attach, onFailed });
        return { token, withdraw: () => void this.#expected.delete(key) };
      },
    };
  }

  /** Opens a connection to another task that begins with its token. Returns a descriptor of the socket. */
  async open(task: TaskId, token: Uint8Array): Promise<number> {
    const { socket, head } = await this.#task.openStream(task, PROTOCOL, { timeoutMs: OPEN_MS });
    let descriptor: number | undefined;
    try {
      if (!isUnencrypted(socket) || head.length > 0)
        throw new ShoalError('SHOAL_CORRUPT', `${task} sent bytes first`);
      descriptor = duplicateOf(socket);
      const written = new Promise<void>((resolve, reject) => {
        socket.write(token, (error) => (error ? reject(error) : resolve()));
      });
      await withDeadline(written, `Opening a bulk channel to ${task}`, { timeoutMs: OPEN_MS });
      return descriptor;
    } catch (error) {
      if (descriptor !== undefined) closeDescriptor(descriptor);
      throw error;
    } finally {
      socket.destroy();
    }
  }

  /** Counts the bytes of a channel. */
  count(channel: BulkChannel): void {
    this.#task.traffic.watchChannel(channel);
  }

  /** Resolves when the channel has ended. */
  async #serve(socket: Duplex, { from, head }: StreamContext): Promise<void> {
    const reading = readToken(socket, head);
    const token = await withDeadline(reading, `The token of a bulk channel of ${from.task}`, {
      timeoutMs: OPEN_MS,
    });
    const key = token.toString('hex');
    const expected = this.#expected.get(key);
    if (expected?.nonce !== from.nonce || !isUnencrypted(socket)) {
      throw new ShoalError('SHOAL_FORBIDDEN', 'its token is unknown');
    }
    this.#expected.delete(key);
    const channel = expected.attach(taken(socket, expected.onFailed));
    if (!channel) return;
    this.count(channel);
    await channel.ended;
  }

  close(): void {
    this.#stopServing();
    this.#expected.clear();
  }
}

function taken(socket: Socket, onFailed: () => void): number {
  try {
    return duplicateOf(socket);
  } catch (error) {
    onFailed();
    throw error;
  } finally {
    socket.destroy();
  }
}

/** The first bytes of a stream; its peer sends nothing after them. */
function readToken(socket: Duplex, head: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let read = Buffer.alloc(0);
    const take = (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      if (read.length < TOKEN_BYTES) return;
      socket.pause();
      socket.off('data', take);
      if (read.length === TOKEN_BYTES) resolve(read);
      else reject(new ShoalError('SHOAL_CORRUPT', 'bytes follow its token'));
    };
    socket.on('close', () => reject(new ShoalError('SHOAL_UNREACHABLE', 'it was closed')));
    socket.on('data', take);
    take(head);
  });
}
