/**
 * A connection to another task, on which both sides send messages with tensors. Messages arrive in the order in which
 * they were sent. `frame.ts` describes their layout.
 *
 * A connection ends once, and for one reason: an invalid message (SHOAL_CORRUPT), a broken socket (SHOAL_UNREACHABLE),
 * a peer that does not read, or does not send what it has announced (SHOAL_TIMEOUT), or `close`. Its bulk channel
 * (`bulk-channel.ts`) begins later and ends with it.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { TransferThread } from '../../../tensorflow/native/threads/transfer-thread.js';
import { BulkChannel } from './bulk-channel.js';
import { Decoder, type WireMessage } from './decoder.js';
import { type BulkOutput, encode } from './encoder.js';
import { WIRE_LIMITS, type WireLimits } from './frame.js';
import { Inbox } from './inbox.js';
import { OutputQueue } from './output-queue.js';
import { StallWatch } from './stall-watch.js';

export type { WireMessage } from './decoder.js';
export type { WireLimits } from './frame.js';

export interface ConnectionOptions {
  /** The peer, for errors: '/job:ps/task:0 (agent host:port)'. */
  readonly label: string;
  /** Called synchronously for each complete message; the receiver owns its tensors. */
  readonly onMessage: (message: WireMessage) => void;
  /** Called once. */
  readonly onClose: (error: ShoalError) => void;
  readonly limits?: Partial<WireLimits>;
  /** The version of the stage protocol that both sides speak; default: the newest of this release. */
  readonly version?: number;
  /** Tensors of at least this size take the bulk channel, if there is one; default: BULK_BYTES. */
  readonly bulkBytes?: number;
}

/**
 * Tensors of at least this size take the bulk channel. Below it the switch between threads takes longer than the bytes.
 */
export const BULK_BYTES = 512 * 1024;

export class Connection {
  readonly #socket: Duplex;
  readonly #options: ConnectionOptions;
  readonly #limits: WireLimits;
  readonly #decoder: Decoder;
  readonly #inbox: Inbox;
  readonly #output: OutputQueue;
  readonly #isEncrypted: boolean;
  readonly #sendWatch: StallWatch;
  readonly #receiveWatch: StallWatch;
  #bulk: BulkChannel | undefined;
  /** Set once the peer takes tensors from the bulk channel. */
  #bulkOutput: BulkOutput | undefined;
  #closed = false;
  #isFlushDue = false;
  /** Messages since the last flush. */
  #unsent = 0;
  /**
   * Whether messages wait for others of the same iteration of the event loop, because the last ones came together or
   * during a write. Only with TLS: every write costs a record, a system call and a callback there.
   */
  #isBusy = false;
  #isPaused = false;
  /** How often output was written. */
  #writes = 0;

  /** `initial` are bytes of the peer that were read from the socket before. */
  constructor(socket: Duplex, options: ConnectionOptions, initial?: Uint8Array) {
    this.#socket = socket;
    this.#options = options;
    this.#limits = { ...WIRE_LIMITS, ...options.limits };
    this.#inbox = new Inbox((message) => this.#deliver(message));
    this.#decoder = new Decoder(
      this.#limits,
      (message) => this.#inbox.push(message),
      () => {
        this.#inbox.advance();
        this.#resumeIfDue();
      },
      options.version,
    );
    this.#output = new OutputQueue(socket, () => this.#written());
    this.#isEncrypted = (socket as TLSSocket).encrypted === true;
    const { label } = options;
    const { stallMs } = this.#limits;
    this.#sendWatch = new StallWatch({
      stallMs,
      isPending: () => this.queuedBytes > 0,
      progress: () => this.#writes + (this.#bulk?.sentParts ?? 0),
      onStall: () => this.#stalled(`${label} has not read anything for ${stallMs} ms`),
    });
    this.#receiveWatch = new StallWatch({
      stallMs,
      isPending: () => this.#bulk?.isReceiving === true,
      progress: () => this.#bulk?.receivedParts ?? 0,
      onStall: () =>
        this.#stalled(`${label} has announced a tensor, and sent nothing of it for ${stallMs} ms`),
    });
    socket.on('error', (cause) => this.#broken(messageOf(cause), cause));
    socket.on('end', () => this.#broken('it closed the connection'));
    socket.on('close', () => this.#broken('it closed the connection'));
    if (socket.destroyed) {
      process.nextTick(() => this.#broken('it closed the connection'));
      return;
    }
    if (initial !== undefined && initial.length > 0) socket.unshift(initial);
    socket.on('data', (chunk: Uint8Array) => this.#receive(chunk));
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The bytes of messages that the socket has not taken yet. */
  get queuedBytes(): number {
    return this.#output.pendingBytes + (this.#bulk?.pendingBytes ?? 0);
  }

  /**
   * Begins to take tensors from a bulk channel, and owns it. The peer sends none before, and must take them itself before
   * `sendBulk`.
   * @param descriptor of a socket that is connected with the peer
   */
  receiveBulk(thread: TransferThread, descriptor: number): BulkChannel {
    const bulk = new BulkChannel(thread, descriptor, {
      onSent: () => this.#resumeIfDue(),
      onBroken: (why, cause) => this.#broken(`the channel of its tensors broke: ${why}`, cause),
    });
    this.#bulk = bulk;
    if (this.#closed) bulk.close();
    this.#decoder.bulk = (tensor, done) => {
      bulk.receive(tensor, done);
      this.#receiveWatch.start();
    };
    return bulk;
  }

  /** Begins to send large tensors through the bulk channel. */
  sendBulk(): void {
    const bulk = this.#bulk;
    if (!bulk) throw new Error('there is no bulk channel');
    const minBytes = this.#options.bulkBytes ?? BULK_BYTES;
    this.#bulkOutput = {
      minBytes,
      send: (held, address, byteLength) => bulk.send(held, address, byteLength),
    };
  }

  /**
   * Sends a message. Throws SHOAL_INVALID_ARGUMENT if it cannot be sent; a broken connection is reported by `onClose`.
   * The caller may dispose of the tensors at once, but must not change arrays behind them before they are written.
   */
  send(message: WireMessage): void {
    if (this.#closed) return;
    encode(message, this.#output, this.#limits, this.#options.version, this.#bulkOutput);
    this.#unsent += 1;
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    if (this.#isBusy) setImmediate(() => this.#flush());
    else process.nextTick(() => this.#flush());
  }

  /** Closes at once; output that is not written is dropped. */
  close(error?: ShoalError): void {
    const { label } = this.#options;
    this.#end(error ?? new ShoalError('SHOAL_ABORTED', `the connection to ${label} was closed`));
  }

  /** Lets the process exit while the connection is open. */
  unref(): void {
    (this.#socket as Socket).unref?.();
  }

  ref(): void {
    (this.#socket as Socket).ref?.();
  }

  #flush(): void {
    this.#isFlushDue = false;
    if (this.#closed) return;
    const isWriting = this.#output.flush();
    this.#isBusy = this.#isEncrypted && (this.#unsent > 1 || !isWriting);
    this.#unsent = 0;
    this.#pauseIfDue();
    this.#sendWatch.start();
  }

  #written(): void {
    this.#writes += 1;
    this.#resumeIfDue();
  }

  #pauseIfDue(): void {
    const { maxQueuedBytes, maxWaitingBytes } = this.#limits;
    if (this.#isPaused || this.#closed) return;
    if (this.queuedBytes <= maxQueuedBytes && this.#inbox.waitingBytes <= maxWaitingBytes) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  #resumeIfDue(): void {
    const { maxQueuedBytes, maxWaitingBytes } = this.#limits;
    if (!this.#isPaused || this.#closed) return;
    if (this.queuedBytes > maxQueuedBytes / 2 || this.#inbox.waitingBytes > maxWaitingBytes / 2) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  #receive(chunk: Uint8Array): void {
    if (this.#closed) return;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      this.#end(this.#invalid(error));
    }
    this.#pauseIfDue();
  }

  #deliver(message: WireMessage): void {
    try {
      this.#options.onMessage(message);
    } catch (cause) {
      const { label } = this.#options;
      const what = `a message of ${label} could not be processed: ${messageOf(cause)}`;
      this.#end(new ShoalError('SHOAL_INTERNAL', what, { cause }));
    }
  }

  #stalled(what: string): void {
    this.#end(new ShoalError('SHOAL_TIMEOUT', what));
  }

  #invalid(cause: unknown): ShoalError {
    const { label } = this.#options;
    const code = isShoalError(cause) ? cause.code : 'SHOAL_INTERNAL';
    const what =
      code === 'SHOAL_CORRUPT' ? 'sent an invalid message' : 'sent a message that cannot be received';
    return new ShoalError(code, `${label} ${what}: ${messageOf(cause)}`, { cause });
  }

  #broken(why: string, cause?: unknown): void {
    if (this.#closed) return;
    const { label } = this.#options;
    const isInMessage = this.#decoder.isInMessage || !this.#inbox.isEmpty;
    const where = isInMessage ? ', in the middle of a message' : '';
    this.#end(
      new ShoalError('SHOAL_UNREACHABLE', `the connection to ${label} is broken: ${why}${where}`, { cause }),
    );
  }

  #end(error: ShoalError): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#sendWatch.stop();
    this.#receiveWatch.stop();
    this.#decoder.stop();
    this.#inbox.stop();
    this.#output.close();
    this.#bulk?.close();
    this.#socket.destroy();
    this.#options.onClose(error);
  }
}
