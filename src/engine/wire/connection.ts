/**
 * A connection to another task, on which both sides send messages with tensors. Messages arrive in the order in which
 * they were sent. `frame.ts` describes their layout.
 *
 * A connection ends once, and for one reason: an invalid message (SHOAL_CORRUPT), a broken socket (SHOAL_UNREACHABLE),
 * a peer that does not read (SHOAL_TIMEOUT), or `close`.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import { Decoder, type Message } from './decoder.js';
import { encode } from './encoder.js';
import { WIRE_LIMITS, type WireLimits } from './frame.js';
import { OutputQueue } from './output-queue.js';

export type { Message } from './decoder.js';
export type { WireLimits } from './frame.js';

export interface ConnectionOptions {
  /** The peer, for errors: '/job:ps/task:0 (agent host:port)'. */
  readonly label: string;
  /** Called synchronously for each complete message; the receiver owns its tensors. */
  readonly onMessage: (message: Message) => void;
  /** Called once. */
  readonly onClose: (error: ShoalError) => void;
  readonly limits?: Partial<WireLimits>;
  /** The version of the stage protocol that both sides speak; default: the newest of this release. */
  readonly version?: number;
}

/** How often pending output is checked for progress during the time limit. */
const STALL_CHECKS = 4;

export class Connection {
  readonly #socket: Duplex;
  readonly #options: ConnectionOptions;
  readonly #limits: WireLimits;
  readonly #decoder: Decoder;
  readonly #output: OutputQueue;
  readonly #isEncrypted: boolean;
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
  #stallTimer: NodeJS.Timeout | undefined;
  /** Checks since output was last written. */
  #checks = 0;

  /** `initial` are bytes of the peer that were read from the socket before. */
  constructor(socket: Duplex, options: ConnectionOptions, initial?: Uint8Array) {
    this.#socket = socket;
    this.#options = options;
    this.#limits = { ...WIRE_LIMITS, ...options.limits };
    this.#decoder = new Decoder(this.#limits, (message) => this.#deliver(message), options.version);
    this.#output = new OutputQueue(socket, () => this.#written());
    this.#isEncrypted = (socket as TLSSocket).encrypted === true;
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
    return this.#output.pendingBytes;
  }

  /**
   * Sends a message. Throws SHOAL_INVALID_ARGUMENT if it cannot be sent; a broken connection is reported by `onClose`.
   * The caller may dispose of the tensors at once, but must not change arrays behind them before they are written.
   */
  send(message: Message): void {
    if (this.#closed) return;
    encode(message, this.#output, this.#limits, this.#options.version);
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
    if (this.#output.pendingBytes > this.#limits.maxQueuedBytes && !this.#isPaused) {
      this.#isPaused = true;
      this.#socket.pause();
    }
    this.#watchProgress();
  }

  #written(): void {
    this.#checks = 0;
    if (this.#isPaused && this.#output.pendingBytes <= this.#limits.maxQueuedBytes / 2) {
      this.#isPaused = false;
      this.#socket.resume();
    }
  }

  /**
   * Ends the connection when pending output makes no progress. One timer serves all messages: it continues while output
   * is pending. It counts its own calls instead of time, so that a blocked event loop is not mistaken for a stalled peer.
   */
  #watchProgress(): void {
    if (this.#stallTimer !== undefined) return;
    const { stallMs } = this.#limits;
    this.#checks = 0;
    const check = () => {
      this.#stallTimer = undefined;
      if (this.#output.pendingBytes === 0) return;
      this.#checks += 1;
      if (this.#checks <= STALL_CHECKS) {
        this.#stallTimer = setTimeout(check, stallMs / STALL_CHECKS).unref();
        return;
      }
      const what = `${this.#options.label} has not read anything for ${stallMs} ms`;
      this.#end(new ShoalError('SHOAL_TIMEOUT', what));
    };
    this.#stallTimer = setTimeout(check, stallMs / STALL_CHECKS).unref();
  }

  #receive(chunk: Uint8Array): void {
    if (this.#closed) return;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      this.#end(this.#invalid(error));
    }
  }

  #deliver(message: Message): void {
    try {
      this.#options.onMessage(message);
    } catch (cause) {
      const { label } = this.#options;
      const what = `a message of ${label} could not be processed: ${messageOf(cause)}`;
      this.#end(new ShoalError('SHOAL_INTERNAL', what, { cause }));
    }
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
    const where = this.#decoder.isInMessage ? ', in the middle of a message' : '';
    this.#end(
      new ShoalError('SHOAL_UNREACHABLE', `the connection to ${label} is broken: ${why}${where}`, { cause }),
    );
  }

  #end(error: ShoalError): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#stallTimer);
    this.#decoder.stop();
    this.#output.close();
    this.#socket.destroy();
    this.#options.onClose(error);
  }
}
